"""`verbalize`, `compare-verbalizers` and `mine-templates`: a language model words questions and statements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from kgedit.errors import ModelError, TimestepError
from kgedit.progress import Advance, Listener
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import (
    AnyFile,
    AnyFolder,
    AnyPath,
    Day,
    ExistingFolder,
    HomeVerb,
    ManyFiles,
    Names,
    argument,
    flag,
    many,
    options,
    python_only,
)
from kgedit.verbs.shared_options import AXES, TIMESTEP_FORMS, Axis, OneVerbalizer, ServerOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.llm.remote.client import ChatReplies
    from kgedit.timesteps.verbalizing import Wanted
    from kgedit.timesteps.verbalizing.mining import Mined
    from kgedit.timesteps.verbalizing.verbalizers import Verbalizer
    from kgedit.verbs.verbalizing import Comparison, Verbalized, WordingOptions

TEMPLATES = "templates"
"""Name of the templates among verbalizers."""

Axes = Annotated[Sequence[Axis], BeforeValidator(many)]


@options
class TimestepToWord:
    """The timestep to word, and its axes."""

    timestep: AnyPath = argument(kw_only=False, complete="timesteps", help=f"The timestep: {TIMESTEP_FORMS}.")
    axes: Axes = flag("--axis", default=(), group="Questions", help="An axis to word; repeat. Default: all.")
    seed: int = flag(default=0, group="Questions", help="Seed for drawing the cases.")


@options
class Verbalize(OneVerbalizer, TimestepToWord, HomeVerb["Verbalized"]):
    """Reword a timestep's questions with a language model.

    A copy of the timestep with the model's questions is written to --out. Every question must pass the final filters
    (subject named, relation expressed, answer not given away, answer repeated, one question, length); otherwise the
    template's question is kept. wordings.parquet in the new folder records the source of each question and the reason,
    timestep.json the counts.

    Replies are cached by content: the same command resumes an interrupted one, does not pay twice and writes the same
    bytes. A server's key is read from the environment only.
    """

    out: AnyFolder | None = flag(default=None, group="Output", help="Folder to write.")
    limit: int | None = flag(
        default=None,
        ge=1,
        group="Questions",
        metavar="N",
        help="Number of cases to word; the rest keep template questions.",
    )
    personas: ExistingFolder | None = flag(
        default=None, group="Questions", help="Folder of personas, if the timestep has your own."
    )
    overwrite: bool = flag(default=False, group="Output", help="Replace the folder if it exists.")
    progress: Advance | None = python_only(default=None, help="Progress callback.")

    def wanted(self, home: Path) -> list[Wanted]:
        """Records that the model would word."""
        from kgedit.timesteps.timestep import Timestep
        from kgedit.verbs.verbalizing import find_wanted

        return find_wanted(Timestep.open(Path(self.timestep)), self._wording(home))

    def run(self, home: Path) -> Verbalized:
        """Reword the questions and write the copy.

        Raises:
            TimestepError: if there is no folder to write, or it exists or is the timestep's own.
            ModelError: if the model cannot be queried; existing wordings stay in the cache.
        """
        from kgedit.timesteps.timestep import Timestep
        from kgedit.verbs.verbalizing import verbalize

        if self.out is None:
            raise TimestepError("Name the folder to write: --out FOLDER.")
        return verbalize(
            Timestep.open(Path(self.timestep)),
            Path(self.out),
            self.verbalizer(),
            options=self._wording(home),
            overwrite=self.overwrite,
            progress=self.progress,
        )

    def _wording(self, home: Path) -> WordingOptions:
        from kgedit.verbs.verbalizing import WordingOptions

        return WordingOptions(
            axes=tuple(self.axes) or AXES,
            home=home,
            personas=None if self.personas is None else Path(self.personas),
            prompts=self.prompts_folder,
            limit=self.limit,
            seed=self.seed,
        )


@options
class CompareVerbalizers(ServerOptions, TimestepToWord, HomeVerb["Comparison"]):
    """Compare templates and models on the same facts.

    Each verbalizer words the same cases of the timestep on all axes. By axis, the output shows the share of questions
    that pass the final filters, the reasons for those that fail, and for those that pass: number of words, overlap with
    the template's question, and the share of distinct word pairs. Nothing is written except the cache of replies.
    """

    names: Names = flag(
        "--by",
        kw_only=False,
        group="Model",
        metavar="VERBALIZER",
        help="templates, local:NAME, NAME for --base-url, or NAME@URL; repeat.",
    )
    sample: int = flag(default=30, ge=1, group="Questions", help="Cases to word.")
    progress: Listener | None = python_only(
        default=None, help="Called with a verbalizer's name, the number of finished records, and their total."
    )

    def run(self, home: Path) -> Comparison:
        """Word the facts with each of them.

        Raises:
            ModelError: if a model cannot be queried, or a name is not a verbalizer.
        """
        from kgedit.timesteps.timestep import Timestep
        from kgedit.untrusted import without_credentials
        from kgedit.verbs.verbalizing import WordingOptions, compare

        axes = tuple(self.axes) or AXES
        wording = WordingOptions(axes=axes, home=home, prompts=self.prompts_folder, limit=self.sample, seed=self.seed)
        verbalizers = {without_credentials(name): self._verbalizer(name) for name in dict.fromkeys(self.names)}
        return compare(Timestep.open(Path(self.timestep)), verbalizers, options=wording, progress=self.progress)

    def _verbalizer(self, name: str) -> Verbalizer | None:
        if name == TEMPLATES:
            return None
        if name.startswith("local:"):
            return self.local_model(name.removeprefix("local:"))
        model, _, url = name.partition("@")
        if not model:
            raise ModelError(f"'{name}' is not a verbalizer. Give templates, local:NAME, NAME or NAME@URL.")
        return self.remote(model, url or None)


@options
class MineTemplates(OneVerbalizer, HomeVerb["tuple[Mined, ChatReplies | None]"]):
    """Mine cloze templates from a model's statements.

    As WikiFactDiff did with a language model: the model states facts of popular subjects of each relation ten times
    each; statements that contain the subject and end with the object become templates, and the five most frequent are
    kept. --out is a catalogue for `export-timestep --templates`, with the mined clozes in place of the built-in ones.
    The output lists every kept template with the number of facts that were stated with it.
    """

    date: Day = flag(kw_only=False, complete="snapshot_dates", help="The snapshot whose facts are stated.")
    properties: Names = flag(
        "--property", default=(), metavar="PID", complete="properties", help="A relation; repeat. Default: all."
    )
    facts: int = flag(default=100, ge=1, help="Maximum number of facts per relation.")
    most_popular: int = flag(default=100_000, ge=1, help="Number of items that count as popular.")
    pageviews: ManyFiles = flag(
        default=(),
        help="A monthly file pageviews-YYYYMM-user, of the year before the snapshot; repeat. Popular are then the most "
        "read items, as in the paper; else those that most facts have as their value.",
    )
    seed: int = flag(default=0, help="Seed for drawing the facts.")
    out: AnyFile | None = flag(default=None, group="Output", help="Catalogue to write, a YAML file.")
    overwrite: bool = flag(default=False, group="Output", help="Replace the file if it exists.")
    progress: Advance | None = python_only(default=None, help="Progress callback.")

    def stated(self, home: Path) -> pa.Table:
        """Facts that the model states."""
        from kgedit.store.snapshots import open_snapshot
        from kgedit.timesteps.verbalizing.mining import facts_to_state

        return facts_to_state(
            open_snapshot(home, read_date(self.date)),
            properties=tuple(self.properties),
            per_relation=self.facts,
            most_popular=self.most_popular,
            pageviews=tuple(Path(file) for file in self.pageviews),
            seed=self.seed,
        )

    def run(self, home: Path) -> tuple[Mined, ChatReplies | None]:
        """Have the model state facts, and write the catalogue.

        Raises:
            TimestepError: if there is no file to write, it exists, or no template was found.
            ModelError: if the model cannot be queried.
        """
        from kgedit.verbs.verbalizing import mine_clozes

        if self.out is None:
            raise TimestepError("Name the catalogue to write: --out FILE.")
        return mine_clozes(
            self.stated(home),
            self.verbalizer(),
            Path(self.out),
            prompts=self.prompts_folder,
            overwrite=self.overwrite,
            progress=self.progress,
        )
