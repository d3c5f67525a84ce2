"""Options of exports, and the settings of the profiles that follow from them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from kgedit.errors import TimestepError
from kgedit.timesteps.profiles import COMPATS, ENGINES, PERSONA_STYLES, PROFILES, check_profile, functional_by
from kgedit.verbs.options import (
    AnyFolder,
    ExistingFile,
    ExistingFolder,
    ExistingPath,
    ManyFiles,
    Names,
    OneOf,
    flag,
    options,
)

if TYPE_CHECKING:
    from kgedit.timesteps.export import WikiBigEditSettings
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
        help="wikibigedit: keep changes of these kinds, such as update (docs/kinds-of-change.md); repeat, or separate "
        "by commas. Default: all.",
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
    hops: int = flag(
        default=2,
        ge=2,
        le=4,
        group="Questions",
        help="wikibigedit: also ask for chains of up to this number of facts, one of which is the edit.",
    )
    language: str = flag(
        default="en",
        group="Questions",
        metavar="CODE",
        help="wikibigedit: language of the questions: en, de, es, fr or zh. Load the snapshots with the same "
        "--language.",
    )
    crosslingual: ExistingFolder | None = flag(
        default=None,
        group="Questions",
        help="wikibigedit: timestep of the same dates exported with another --language, whose questions are also asked "
        "about these edits. With --all: folder of such timesteps.",
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
            "hops": self.hops > 2,
            "language": self.language != "en",
            "crosslingual": self.crosslingual,
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
