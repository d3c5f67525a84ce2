"""A home: the folder with snapshots, timesteps, and the graph built from the snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.extras import names_extra
from kgedit.verbs.home_folder import Date, Steps, read_date
from kgedit.verbs.home_graph import HomeGraph
from kgedit.verbs.home_timesteps import HomeTimesteps
from kgedit.verbs.live_progress import step_line

if TYPE_CHECKING:
    from kgedit.graph.projection import GraphContent
    from kgedit.store.scope import Scope
    from kgedit.store.snapshots import Snapshot

__all__ = ["Date", "Home", "Steps", "folder_of", "read_date"]


class Home(HomeGraph, HomeTimesteps):
    """A folder of snapshots, with the graph and the timesteps created from them.

    Nothing is read, written or started before a method needs it. Methods that need the graph start the home's own
    server if none is running, or use that of `KGEDIT_GRAPH_URI`.

    Args:
        path: Home folder; None means `$KGEDIT_HOME`, else `./kgedit-data`.
    """

    @names_extra
    def load_dump(
        self,
        path: str | Path,
        date: Date,
        *,
        source_format: str | None = None,
        languages: tuple[str, ...] = ("en", "mul"),
        wiki: str = "enwiki",
        redirects: str | Path | None = None,
        limit: int | None = None,
        max_error_rate: float = 0.01,
        workers: int | None = None,
        overwrite: bool = False,
        slice_of: str | None = None,
        graph: bool = True,
        scope: Scope | None = None,
        progress: Steps | None = None,
    ) -> Snapshot:
        """Load a Wikidata dump as the snapshot of a date; an interrupted load resumes.

        Args:
            path: Dump file, plain or compressed (.gz, .bz2, .zst).
            date: Day of the dump.
            source_format: Name of a loader; None means detect it from the content.
            languages: Label languages; those after the first are fallbacks.
            wiki: Wiki whose article titles are stored.
            redirects: Tab-separated file: from, to and (optionally) first date. Dumps leave redirects out.
            limit: Maximum number of lines; None means all.
            max_error_rate: Share of unreadable lines or statements above which the load fails.
            workers: Number of parser processes; None means one per core.
            overwrite: Whether to replace a snapshot of this date.
            slice_of: Description of what the dump is a slice of: what it lacks is unknown, not removed. None means the
                description in the note next to the file, or all of Wikidata without a note.
            graph: Whether to update the graph as well.
            scope: Part of the store that the graph contains; see `update_graph`.
            progress: Called with every step. None shows a progress line in a notebook or a terminal.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if the store cannot be written, or contains another dump under this date.
            GraphError: if the graph cannot be written.
        """
        from kgedit.verbs.loading import DumpOptions, load_dump

        options = DumpOptions(
            source_format=source_format,
            languages=languages,
            wiki=wiki,
            redirects=redirects,
            limit=limit,
            max_error_rate=max_error_rate,
            workers=workers,
            overwrite=overwrite,
            slice_of=slice_of,
        )
        snapshot = load_dump(self.path, Path(path), read_date(date), options=options, steps=progress or step_line)
        if graph:
            self.update_graph(scope=scope, progress=progress)
        return snapshot

    @names_extra
    def load_dump_as_of(
        self,
        path: str | Path,
        days: Iterable[Date],
        *,
        source_format: str | None = None,
        languages: tuple[str, ...] = ("en", "mul"),
        wiki: str = "enwiki",
        redirects: str | Path | None = None,
        limit: int | None = None,
        max_error_rate: float = 0.01,
        workers: int | None = None,
        overwrite: bool = False,
        slice_of: str | None = None,
        graph: bool = True,
        scope: Scope | None = None,
        progress: Steps | None = None,
    ) -> list[Snapshot]:
        """Project a dump to several earlier days by the dates in its qualifiers, in one pass (docs/how-to/streams.md).

        Args:
            path: Dump file. Remaining arguments: see `load_dump`.
            days: Days of the snapshots.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if no day is given, or a day already has another snapshot; then none is written.
            GraphError: if the graph cannot be written.
        """
        from kgedit.verbs.loading import DumpOptions, load_dump_as_of

        options = DumpOptions(
            source_format=source_format,
            languages=languages,
            wiki=wiki,
            redirects=redirects,
            limit=limit,
            max_error_rate=max_error_rate,
            workers=workers,
            overwrite=overwrite,
            slice_of=slice_of,
        )
        wanted, steps = [read_date(day) for day in days], progress or step_line
        snapshots = load_dump_as_of(self.path, Path(path), wanted, options=options, steps=steps)
        if graph:
            self.update_graph(scope=scope, progress=progress)
        return snapshots

    @names_extra
    def drop_snapshot(self, date: Date, *, graph: bool = True, progress: Steps | None = None) -> GraphContent | None:
        """Remove a snapshot from the store; timesteps exported from it are kept.

        Args:
            date: Day of the snapshot.
            graph: Whether to rebuild the graph without it.
            progress: Called with every step. None shows a progress line in a notebook or a terminal.

        Returns:
            Content of the graph afterwards; None if it was not changed, or was emptied because no snapshot is left.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import drop_snapshot

        with disk_errors(self.path):
            left = drop_snapshot(self.path, read_date(date))
        if graph and left:
            return self.update_graph(rebuild=True, progress=progress)
        if graph:
            self.empty_graph()
        return None


def folder_of(home: Home | str | Path | None) -> Path | None:
    """Folder of a home given as an object or a path; None for None."""
    if home is None:
        return None
    return home.path if isinstance(home, Home) else Path(home)
