"""`export-timestep`: exports the changes between two snapshots, or between all neighbouring ones, as questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kgedit.engines import ENGINES
from kgedit.errors import TimestepError
from kgedit.timesteps.profiles import COMPATS, PERSONA_STYLES, PROFILES, check_profile, functional_by
from kgedit.verbs.options import (
    AnyFolder,
    Day,
    ExistingFile,
    ExistingFolder,
    ExistingPath,
    HomeVerb,
    ManyFiles,
    Names,
    OneOf,
    flag,
    options,
    python_only,
)

if TYPE_CHECKING:
    from kgedit.timesteps.export import WikiBigEditSettings
    from kgedit.timesteps.stream import Stream
    from kgedit.timesteps.timestep import Timestep
    from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings

KIND_EMBEDDER = "all-minilm-l6-v2"
"""Embedder that compares the meanings of labelled changes by default."""


@options
class ExportOptions:
    """Options of every export."""

    profile: Annotated[str, OneOf(PROFILES)] = flag(default=PROFILES[0], help="What counts as a change.")
    kinds: Names = flag(
        default=(),
        metavar="KIND,...",
        complete="kinds",
        by_commas=True,
        help="wikibigedit: keep changes of these kinds, such as update (docs/kinds-of-change.md). Default: all.",
    )
    functional_by: Annotated[str, OneOf(("values", "data", "constraints"))] | None = flag(
        default=None,
        rare=True,
        help="Criterion for relations with one value. Default: values; wikifactdiff: constraints.",
    )
    only: ExistingFile | None = flag(
        default=None, help="CSV (subject,property) of the changes that count, as explore writes it."
    )
    labelled_changes: ExistingFile | None = flag(
        default=None, rare=True, help="wikibigedit: train a classifier of kinds with this file (kgedit[classifier])."
    )
    kind_embedder: str | None = flag(
        default=None,
        rare=True,
        metavar="NAME",
        help=f"With --labelled-changes: embedder, or none for words. Default: {KIND_EMBEDDER}.",
    )
    compat: Annotated[str, OneOf(COMPATS)] | None = flag(
        default=None, rare=True, help="wikifactdiff: behave as its released code."
    )
    known_facts: int = flag(
        default=2000, ge=0, group="Questions", help="Facts of the older snapshot to write questions for."
    )
    templates: ExistingPath | None = flag(
        default=None, group="Questions", help="Template catalogue, a file or folder. Default: the built-in one."
    )
    personas: ExistingFolder | None = flag(
        default=None, group="Questions", help="Folder of personas. Default: the built-in ones."
    )
    persona_style: Annotated[str, OneOf(PERSONA_STYLES)] = flag(
        default=PERSONA_STYLES[0],
        group="Questions",
        rare=True,
        help="Personas' own words, or the unchanged question in a frame (easier).",
    )
    ask_as_of: bool = flag(
        default=False, group="Questions", help="Begin questions with the day: As of 27 February 2023, who ...?"
    )
    changed_locality: bool = flag(
        default=False,
        group="Questions",
        rare=True,
        help="wikibigedit: prefer changed facts that are not cases as locality probes.",
    )
    pageviews: ManyFiles = flag(
        default=(),
        group="Questions",
        rare=True,
        help="A month's page views (pageviews-YYYYMM-user), for subjects and objects; repeat.",
    )
    counts: ExistingPath | None = flag(
        default=None,
        group="Questions",
        rare=True,
        help="Counts of labels or ids in a corpus (tab, CSV, JSON), or texts to count labels in (.txt, .jsonl, "
        ".parquet).",
    )
    seed: int = flag(default=0, group="Questions", help="Seed for drawing personas, second hops and random neighbours.")
    engine: Annotated[str, OneOf(ENGINES)] = flag(
        default=ENGINES[0],
        group="Machine",
        help="Ask in Cypher, or in SQL without a server; auto: by size of the window. The tables are the same.",
    )
    forms: Names | None = flag(
        "--form",
        default=None,
        group="Output",
        complete="export_forms",
        help="Also write this form; repeat for several. Default: the profile's own.",
    )
    out: AnyFolder | None = flag(
        default=None,
        group="Output",
        help="Folder to write. Default: $KGEDIT_HOME/timesteps/FROM_TO, or FROM_TO_wikifactdiff. "
        "With --all: the folder for these, by default $KGEDIT_HOME/timesteps.",
    )
    overwrite: bool = flag(default=False, group="Output", help="Replace the folder if it holds anything else.")

    def check(self) -> None:
        """Check the options against each other.

        Raises:
            TimestepError: if an option is not one of the profile's, or a name is unknown.
        """
        from kgedit.timesteps.kinds import check_kinds

        own = {
            "compat": self.compat,
            "kinds": self.kinds,
            "labelled-changes": self.labelled_changes,
            "kind-embedder": self.kind_embedder,
            "changed-locality": self.changed_locality,
        }
        check_profile(self.profile, own)
        check_kinds(self.kinds)
        if self.engine not in ENGINES:
            raise TimestepError(f"There is no engine {self.engine!r}. There are: {', '.join(ENGINES)}.")
        functional_by(self.profile, self.functional_by)
        if self.kind_embedder and not self.labelled_changes:
            raise TimestepError(
                "--kind-embedder is of use with --labelled-changes FILE only. Add that, or leave it out."
            )

    def wikibigedit(self) -> WikiBigEditSettings:
        """Settings of the profile wikibigedit."""
        from kgedit.timesteps.export import WikiBigEditSettings

        embedder = (self.kind_embedder or KIND_EMBEDDER) if self.labelled_changes else None
        own = {"kind_embedder": None if embedder == "none" else embedder}
        return WikiBigEditSettings(**(self._values(WikiBigEditSettings) | own))

    def wikifactdiff(self) -> WikiFactDiffSettings:
        """Settings of the profile wikifactdiff."""
        from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings

        return WikiFactDiffSettings(**self._values(WikiFactDiffSettings))

    def _values(self, settings: Any) -> dict[str, Any]:
        """Values of the options that a profile's settings share with this class, by name."""
        names = [field.name for field in fields(settings) if hasattr(self, field.name)]
        return {name: getattr(self, name) for name in names} | {
            "functional_by": functional_by(self.profile, self.functional_by)
        }


@options
class ExportTimestep(ExportOptions, HomeVerb["Timestep"]):
    """Export the changes between two snapshots as questions.

    The folder contains a timestep: edits with their rephrased, persona, locality and two-hop questions. With --profile
    wikifactdiff it also contains what became true, ceased to be true and stayed true for each subject and relation,
    with neighbours.

    An existing timestep is kept if the export would be identical, so with --all an interrupted command resumes.
    """

    older: Day = flag("--from", kw_only=False, complete="snapshot_dates", help="Date of the older snapshot.")
    newer: Day = flag("--to", kw_only=False, complete="snapshot_dates", help="Date of the newer snapshot.")

    def run(self, home: Path) -> Timestep:
        """Export it, or keep an identical one.

        Raises:
            StoreError: if a snapshot is not loaded.
            TimestepError: if the folder contains anything else, the dates are reversed, the graph lacks a snapshot, or
                an option is not one of the profile's.
        """
        from kgedit.verbs.exporting import export_or_keep

        self.check()
        return export_or_keep(home, self)


@options
class ExportAll(ExportOptions, HomeVerb["Stream"]):
    """Export timesteps between all consecutive snapshots, and the stream that links them (docs/how-to/streams.md).

    Each is byte-identical to the output of `export_timestep`. An existing identical timestep is kept, so an interrupted
    call resumes.
    """

    told: Callable[[str, bool], None] | None = python_only(
        default=None, help="Called with each timestep's name, and whether it was kept."
    )

    def run(self, home: Path) -> Stream:
        """Export them.

        Raises:
            TimestepError: if there are fewer than two snapshots, a folder contains a timestep exported with other
                options, the graph lacks a snapshot, or an option is not one of the profile's.
        """
        from kgedit.timesteps.timestep import timesteps_folder
        from kgedit.verbs.exporting import export_stream

        self.check()
        folder = timesteps_folder(home) if self.out is None else Path(self.out)
        return export_stream(home, folder, options=self, told=self.told or (lambda _name, _kept: None))
