"""Questions about the edits in another language, taken from the timestep of the same window in that language.

Labels of a snapshot are in one language, so each language has a home with its own snapshots and timestep. Cases are
matched by their ids, and each takes the other timestep's question, which passed the final filters there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.store.engine import select
from kgedit.timesteps.tables import CROSSLINGUAL
from kgedit.timesteps.timestep import MANIFEST, Timestep
from kgedit.wording.catalogues import ENGLISH


def open_other(folder: Path, name: str, *, language: str) -> Timestep:
    """Open the timestep with the questions in another language.

    Args:
        folder: The timestep, or a folder that contains it under its name, as `export-timestep --all` writes it.
        name: Name of the timestep whose edits are asked for.
        language: Language of that timestep.

    Raises:
        TimestepError: if it is of other dates, another profile, or the same language.
    """
    other = Timestep.open(folder if (folder / MANIFEST).is_file() or not (folder / name).is_dir() else folder / name)
    if other.name != name or other.manifest.get("profile") != "wikibigedit":
        raise TimestepError(
            f"{other.folder} is the timestep {other.name} of the profile {other.manifest.get('profile')}. Questions in "
            f"another language come from the timestep {name} of the profile wikibigedit, exported with --language."
        )
    if language_of(other) == language:
        raise TimestepError(
            f"The questions of {other.folder} are in '{language}', as those of this export. Export the other timestep "
            "with another --language."
        )
    return other


def language_of(timestep: Timestep) -> str:
    """Code of the language of a timestep's questions."""
    return str(timestep.manifest.get("settings", {}).get("language", ENGLISH.code))


def languages_of(timestep: Timestep) -> set[str]:
    """Codes of all languages that a timestep asks in."""
    other = timestep.manifest.get("crosslingual")
    return {language_of(timestep), *([str(other["language"])] if other else [])}


def ask_in_other_language(cases: pa.Table, other: Timestep) -> pa.Table:
    """Questions of another timestep about the same edits, with the schema CROSSLINGUAL, ordered by case_id.

    Args:
        cases: Column case_id.
        other: From `open_other`. Edits that are no cases there have no question.
    """
    return select(
        f"SELECT {', '.join(CROSSLINGUAL.names)} FROM (SELECT *, $language AS language FROM other) "
        "SEMI JOIN cases USING (case_id) ORDER BY case_id",
        {"language": language_of(other)},
        other=other.table("cases"),
        cases=cases.select(["case_id"]),
    ).cast(CROSSLINGUAL)


def describe_crosslingual(cases: pa.Table, asked: pa.Table, other: Timestep) -> dict[str, Any]:
    """Entry of the manifest: the language, and the numbers of edits with and without a question in it."""
    return {
        "language": language_of(other),
        "asked": asked.num_rows,
        "cases_without": cases.num_rows - asked.num_rows,
    }
