"""Rewords a timestep with a model, and writes the result next to the original."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.checksums import SUMS, write_checksums
from kgedit.errors import TimestepError
from kgedit.exporters import EXPORTERS
from kgedit.files import replace_file
from kgedit.llm.remote.client import ChatReplies
from kgedit.progress import Advance, Listener
from kgedit.store.disk import disk_errors
from kgedit.store.files import replace_folder, working_folder, write_json
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.timesteps.crosslingual import language_of
from kgedit.timesteps.qaedit import refuse_to_replace
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.verbalizing import Wanted, wanted_wordings
from kgedit.timesteps.verbalizing.mining import Mined, mine, mined_catalogue, wanted_statements
from kgedit.timesteps.verbalizing.prompting import prompts_version
from kgedit.timesteps.verbalizing.rewording import (
    VerbalizerTexts,
    choose_wordings,
    count_wordings,
    reworded_tables,
    side_by_side,
    summarize,
    texts_of_model,
    texts_of_templates,
    wordings_table,
)
from kgedit.timesteps.verbalizing.verbalizers import Replies, Verbalizer
from kgedit.verbs.shared_options import AXES
from kgedit.wording.catalogues import ENGLISH
from kgedit.wording.personas import keyed_number


@dataclass(frozen=True, slots=True, kw_only=True)
class WordingOptions:
    """Parts of a timestep to reword.

    Attributes:
        axes: Names in kgedit.timesteps.verbalizing.AXES.
        home: Folder with the timestep's snapshots, for descriptions of relations; without them the templates are used.
        personas: Folder of persona catalogues; None means the built-in one.
        prompts: Folder of prompt files; None means the built-in ones.
        limit: Maximum number of cases, drawn by the seed; None means all.
        seed: Seed of the draw.
    """

    axes: tuple[str, ...] = AXES
    home: Path | None = None
    personas: Path | None = None
    prompts: Path | None = None
    limit: int | None = None
    seed: int = 0


def find_wanted(timestep: Timestep, options: WordingOptions) -> list[Wanted]:
    """Find the records of a timestep to reword.

    Raises:
        TimestepError: if the prompts are for another language than the timestep's, or some records cannot be reworded.
    """
    language = language_of(timestep)
    if options.prompts is None and language != ENGLISH.code:
        raise TimestepError(
            f"The questions of {timestep.folder} are in the language {language}, and the built-in prompts ask for "
            "English ones. Give prompts in this language: --prompts FOLDER."
        )
    return wanted_wordings(
        timestep,
        axes=options.axes,
        snapshot=_newer_snapshot(timestep, options.home),
        personas=options.personas,
        case_ids=_drawn(timestep, options),
    )


@dataclass(frozen=True, slots=True)
class Verbalized:
    """A reworded timestep.

    Attributes:
        timestep: The new timestep.
        counts: Axis -> number of questions by source, and reasons.
        asked: Cost of the requests; None for a local model.
    """

    timestep: Timestep
    counts: dict[str, Any]
    asked: ChatReplies | None


def verbalize(
    timestep: Timestep,
    out: Path,
    verbalizer: Verbalizer,
    *,
    options: WordingOptions,
    overwrite: bool = False,
    progress: Advance | None = None,
) -> Verbalized:
    """Reword a timestep with a model and write it to another folder; the same replies give the same bytes.

    Formats next to the timestep's tables are written again, other files are copied.

    Raises:
        TimestepError: if the folder exists or is the timestep's own.
        ModelError: if the model cannot be queried; existing wordings stay in the cache.
    """
    if out.resolve() == timestep.folder.resolve():
        raise TimestepError(f"{out} is the timestep itself. Name another folder with --out.")
    if out.exists() and not overwrite:
        raise TimestepError(f"{out} already exists. Nothing was changed. To replace it, add --overwrite.")
    wanted = find_wanted(timestep, options)
    replies = verbalizer.word(wanted, progress=progress)
    chosen = choose_wordings(wanted, replies.replies, prompts=options.prompts)
    wordings = wordings_table(wanted, chosen)
    counts = count_wordings(wordings)
    about = _provenance(timestep, verbalizer, replies, options) | {"axes": counts}
    with disk_errors(out, again="give the same command again"):
        _write(timestep, out, wordings, about)
    return Verbalized(Timestep.open(out), counts, replies.asked)


def _provenance(
    timestep: Timestep, verbalizer: Verbalizer, replies: Replies, options: WordingOptions
) -> dict[str, Any]:
    snapshot = _newer_snapshot(timestep, options.home)
    return {
        "model": verbalizer.name,
        "where": verbalizer.where,
        "structured": replies.structured,
        "prompts": prompts_version(options.prompts),
        "descriptions": snapshot.name if snapshot else "templates",
        "limit": options.limit,
        "seed": options.seed,
        "of": timestep.sha256,
    }


def _write(timestep: Timestep, out: Path, wordings: pa.Table, about: dict[str, Any]) -> None:
    with working_folder(out) as aside:
        forms = [form for form in EXPORTERS if list(timestep.folder.glob(f"{form}.*"))]
        for path in sorted(timestep.folder.iterdir()):
            if path.is_file() and path.stem not in {*forms, "timestep", SUMS}:
                shutil.copyfile(path, aside / path.name)
        written = dict(timestep.manifest.get("tables", {}))
        for name, table in (*reworded_tables(timestep, wordings).items(), ("wordings", wordings)):
            path = aside / f"{name}.parquet"
            pq.write_table(table, path, compression="zstd")
            written[name] = {"rows": table.num_rows, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        write_json(aside / "timestep.json", timestep.manifest | {"verbalizer": about, "tables": written})
        made = Timestep.open(aside)
        for form in forms:
            EXPORTERS[form](made)
        write_checksums(aside)
        replace_folder(aside, out)


def _newer_snapshot(timestep: Timestep, home: Path | None) -> Snapshot | None:
    if home is None:
        return None
    date = timestep.name.partition("_")[2]
    return next((snapshot for snapshot in list_snapshots(home) if str(snapshot.date) == date), None)


def _drawn(timestep: Timestep, options: WordingOptions) -> frozenset[str] | None:
    if options.limit is None:
        return None
    ids: Sequence[str] = timestep.table("cases")["case_id"].to_pylist()
    return frozenset(sorted(ids, key=lambda case_id: (keyed_number(case_id, options.seed), case_id))[: options.limit])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of several verbalizers on the same facts.

    Attributes:
        summary: Table with the schema kgedit.timesteps.verbalizing.rewording.SUMMARY.
        questions: First question of each verbalizer, side by side.
        asked: Cost of the requests to servers.
    """

    summary: pa.Table
    questions: pa.Table
    asked: dict[str, ChatReplies]


def compare(
    timestep: Timestep,
    verbalizers: Mapping[str, Verbalizer | None],
    *,
    options: WordingOptions,
    progress: Listener | None = None,
) -> Comparison:
    """Word the same facts with several verbalizers.

    Args:
        verbalizers: Verbalizers by display name; None means the templates.
        progress: Called with a verbalizer's name, the number of finished records, and their total.

    Raises:
        ModelError: if a model cannot be queried.
    """
    wanted = find_wanted(timestep, options)
    by_verbalizer: dict[str, list[VerbalizerTexts]] = {}
    asked: dict[str, ChatReplies] = {}
    for name, verbalizer in verbalizers.items():
        if verbalizer is None:
            by_verbalizer[name] = texts_of_templates(wanted)
            continue
        replies = verbalizer.word(wanted, progress=partial(progress, name) if progress else None)
        by_verbalizer[name] = texts_of_model(wanted, replies.replies, prompts=options.prompts)
        if replies.asked:
            asked[name] = replies.asked
    return Comparison(summarize(wanted, by_verbalizer), side_by_side(wanted, by_verbalizer), asked)


def mine_clozes(
    facts: pa.Table,
    verbalizer: Verbalizer,
    out: Path,
    *,
    prompts: Path | None = None,
    overwrite: bool = False,
    progress: Advance | None = None,
) -> tuple[Mined, ChatReplies | None]:
    """Have a model state facts and write a catalogue with templates mined from its statements.

    Args:
        facts: Facts from kgedit.timesteps.verbalizing.mining.facts_to_state.
        out: YAML file to write.

    Raises:
        TimestepError: if the file exists, its folder does not, there are no facts, or no template was found.
        ModelError: if the model cannot be queried.
    """
    refuse_to_replace(out, overwrite=overwrite)
    if not facts.num_rows:
        raise TimestepError(
            "The snapshot has no facts of popular subjects with these properties. Give others with --property, or a "
            "larger --most-popular."
        )
    replies = verbalizer.word(wanted_statements(facts), progress=progress)
    mined = mine(facts, replies.replies, prompts=prompts)
    if not mined.kept:
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in mined.dropped.items())
        raise TimestepError(f"No template was found in {facts.num_rows:,} facts ({reasons}). Try another model.")
    replace_file(out, mined_catalogue(mined))
    return mined, replies.asked
