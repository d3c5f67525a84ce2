"""`load-dump`: loads a dump as the snapshot of its day, or projected to several earlier days."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from kgedit.progress import Steps, advancing
from kgedit.store.scope import Scope
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import (
    AnyPath,
    Day,
    ExistingFile,
    HomeVerb,
    Names,
    argument,
    flag,
    many,
    options,
    python_only,
)

if TYPE_CHECKING:
    from kgedit.graph.projection import GraphContent
    from kgedit.store.snapshots import Snapshot


@options
class DumpOptions:
    """Options for reading a dump."""

    source_format: str | None = flag(
        default=None, complete="source_formats", rare=True, help="Source format. Default: by the content."
    )
    languages: Names = flag("--language", default=("en", "mul"), help="Label language; repeat for fallbacks.")
    wiki: str = flag(default="enwiki", rare=True, help="Wiki whose article titles are stored.")
    redirects: ExistingFile | None = flag(
        default=None, help="Tab-separated: from, to and (optionally) first date. Dumps leave redirects out."
    )
    limit: int | None = flag(default=None, ge=1, help="Only the first N lines that may be entities.")
    max_error_rate: float = flag(
        default=0.01,
        ge=0,
        le=1,
        rare=True,
        help="Share of unreadable lines or statements above which the load fails.",
    )
    slice_of: str | None = flag(
        default=None,
        metavar="TEXT",
        help="Description of the selected items in PATH: what it lacks is unknown, not removed. Default: that of the "
        "note next to the file, if there is one.",
    )
    workers: int | None = flag(
        default=None, ge=1, group="Machine", help="Parser processes. Default: one for each core."
    )
    graph: bool = flag(default=True, group="Output", help="Also update the graph.")
    overwrite: bool = flag(default=False, group="Output", help="Replace a snapshot of this date.")


@options
class ForGraph:
    """Options for the graph that a change of the store updates."""

    scope: Scope | None = python_only(
        default=None, help="Part of the store that the graph contains; None means its current scope."
    )
    progress: Steps | None = python_only(
        default=None, help="Called with every step. None shows a progress line in a notebook or a terminal."
    )

    def update_graph(self, home: Path, *, rebuild: bool = False) -> GraphContent:
        """Update the graph to match the store, and return its content."""
        from kgedit.graph.projection import bring_up_to_date
        from kgedit.store.snapshots import list_snapshots

        report = (self.progress or step_line)("Writing the graph", 100, "rows")
        with advancing(report):
            return bring_up_to_date(home, list_snapshots(home), rebuild=rebuild, scope=self.scope)


@options
class LoadDump(DumpOptions, ForGraph, HomeVerb["Snapshot"]):
    """Load a Wikidata dump as the snapshot of a date.

    PATH is a dump in one of the formats, plain or compressed (.gz, .bz2, .zst). The same command resumes an interrupted
    load.
    """

    path: AnyPath = argument(kw_only=False, help="Dump file, plain or compressed (.gz, .bz2, .zst).")
    date: Day = flag(kw_only=False, help="Day of the dump.")

    def run(self, home: Path) -> Snapshot:
        """Load it.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if the store cannot be written, or contains another dump under this date.
            GraphError: if the graph cannot be written.
        """
        from kgedit.verbs.loading import load_dump

        steps = self.progress or step_line
        snapshot = load_dump(home, Path(self.path), read_date(self.date), options=self, steps=steps)
        if self.graph:
            self.update_graph(home)
        return snapshot


@options
class LoadDumpAsOf(DumpOptions, ForGraph, HomeVerb["list[Snapshot]"]):
    """Project a dump to several earlier days by the dates in its qualifiers, in one pass (docs/how-to/streams.md)."""

    path: AnyPath = argument(kw_only=False, help="Dump file, plain or compressed (.gz, .bz2, .zst).")
    days: Annotated[Sequence[Day], BeforeValidator(many)] = flag(
        "--as-of",
        kw_only=False,
        help="Instead of --date: project the dump to earlier days, by its statements' dates.",
    )

    def run(self, home: Path) -> list[Snapshot]:
        """Load the snapshots.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if no day is given, or a day already has another snapshot; then none is written.
            GraphError: if the graph cannot be written.
        """
        from kgedit.verbs.loading import load_dump_as_of

        wanted, steps = [read_date(day) for day in self.days], self.progress or step_line
        snapshots = load_dump_as_of(home, Path(self.path), wanted, options=self, steps=steps)
        if self.graph:
            self.update_graph(home)
        return snapshots
