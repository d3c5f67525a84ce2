"""A home: the folder with snapshots, the graph made of them, and timesteps."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kgedit.errors import BenchmarkError, GraphError, StoreError
from kgedit.extras import names_extra
from kgedit.html_tables import html_table
from kgedit.resources import home as default_home

if TYPE_CHECKING:
    import networkx as nx
    import pyarrow as pa

    from kgedit.benchmark.audit import Audit
    from kgedit.benchmark.stream import Stream
    from kgedit.benchmark.timestep import Timestep
    from kgedit.graph.browser import BrowserPage
    from kgedit.graph.projection import Projected
    from kgedit.graph.status import GraphStatus
    from kgedit.store.scope import Scope
    from kgedit.store.snapshots import Snapshot

Date = str | datetime.date
"""A day, also as YYYY-MM-DD."""

Steps = Callable[[str, int, str], Callable[[int, int], None]]
"""Told a step's title, total and unit; returns what is called with how much of the total, and how many units, are done.
"""


def unwatched(_title: str, _total: int, _unit: str) -> Callable[[int, int], None]:
    """Steps that nobody watches."""
    return lambda _done, _counted: None


class Home:
    """A folder of snapshots, with the graph and the timesteps made of them.

    Nothing is read, written or started before a method needs it. What needs the graph starts the home's own server
    where none runs, or uses that of `KGEDIT_GRAPH_URI`.

    Args:
        path: The folder; None for `$KGEDIT_HOME`, else `./kgedit-data`.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_home() if path is None else Path(path).absolute()

    def __repr__(self) -> str:
        return f"kgedit.Home({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the snapshots."""
        counts = ("entities", "claims", "facts")
        rows = [
            (snapshot.name, *(snapshot.manifest[name] for name in counts), snapshot.manifest["source"]["name"])
            for snapshot in self.snapshots()
        ]
        return html_table(f"Home {self.path}", ("snapshot", *counts, "source"), rows)

    def snapshots(self) -> list[Snapshot]:
        """The snapshots in the store, oldest first."""
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import list_snapshots

        with disk_errors(self.path):
            return list_snapshots(self.path)

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
        """Load a Wikidata dump as the snapshot of a date; a load that was interrupted resumes.

        Args:
            path: The dump, plain or compressed (.gz, .bz2, .zst).
            date: Its day.
            source_format: Name of a loader; None for what the content looks like.
            languages: Label languages; those after the first are fallbacks.
            wiki: Wiki whose article titles are kept.
            redirects: Tab-separated file: from, to and (optionally) first date. Dumps leave redirects out.
            limit: Only so many lines; None for all.
            max_error_rate: Share of unreadable lines or statements above which the load fails.
            workers: Parser processes; None for one for each core.
            overwrite: Whether a snapshot of this date is replaced.
            slice_of: What the dump is a slice of, in words: what it lacks is unknown, not removed. None for what the
                note beside the file says, and for all of Wikidata where there is none.
            graph: Whether the graph is brought up to date as well.
            scope: What of the store goes into the graph, as for `update_graph`.
            progress: Told of every step.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if the store cannot be written, or has another dump under this date.
            GraphError: if the graph cannot be written.
        """
        from kgedit.api.loading import DumpOptions, load_dump

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
        snapshot = load_dump(self.path, Path(path), read_date(date), options=options, steps=progress or unwatched)
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
            path: As for `load_dump`, which the further arguments are as for as well.
            days: Days of the snapshots.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if no day is given, or one of them has another snapshot; then none is written.
            GraphError: if the graph cannot be written.
        """
        from kgedit.api.loading import DumpOptions, load_dump_as_of

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
        wanted, steps = [read_date(day) for day in days], progress or unwatched
        snapshots = load_dump_as_of(self.path, Path(path), wanted, options=options, steps=steps)
        if graph:
            self.update_graph(scope=scope, progress=progress)
        return snapshots

    @names_extra
    def update_graph(
        self, *, rebuild: bool = False, scope: Scope | None = None, progress: Steps | None = None
    ) -> Projected:
        """Bring the graph up to date with the store; returns what it holds then.

        Args:
            rebuild: Write it anew as a whole.
            scope: What of the store goes into it; None for what it has, or everything where there is none yet.
            progress: Told of every step.

        Raises:
            StoreError: if the store holds no snapshot.
            GraphError: if the graph cannot be written, or has another scope.
        """
        from kgedit.graph.projection import bring_up_to_date

        report = (progress or unwatched)("Writing the graph", 100, "rows")
        return bring_up_to_date(self.path, self.snapshots(), progress=report, rebuild=rebuild, scope=scope)

    @names_extra
    def drop_snapshot(self, date: Date, *, graph: bool = True, progress: Steps | None = None) -> Projected | None:
        """Remove a snapshot from the store; timesteps that were exported from it stay.

        Args:
            date: Its day.
            graph: Whether the graph is written anew without it as well.
            progress: Told of every step.

        Returns:
            What the graph holds then; None where it was left as it is, or emptied because no snapshot is left.
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

    @names_extra
    def empty_graph(self) -> None:
        """Take everything out of the graph; the store stays."""
        from kgedit.graph.projection import empty_graph

        empty_graph(self.path)

    @names_extra
    def changes(self, older: Date, newer: Date, *, kinds: bool = False) -> pa.Table:
        """Subjects and properties whose current objects differ between two snapshots, one row each.

        The columns are those of the query `changed_edges`: subject, property and objects by id and by label.

        Args:
            older: Day of the older snapshot.
            newer: Day of the newer one.
            kinds: Whether columns kind, kind_confidence and kind_signals are added (`docs/kinds-of-change.md`).

        Raises:
            GraphError: if the graph lacks a snapshot, or the dates are reversed.
            StoreError: if kinds are asked for and the store lacks a snapshot.
        """
        from kgedit.graph.changes import changed_edges
        from kgedit.graph.connection import Graph
        from kgedit.graph.queries import check_dates
        from kgedit.wikidata.times import day_number

        window = {"from": day_number(read_date(older)), "to": day_number(read_date(newer))}
        with Graph.open(self.path) as graph:
            check_dates(window, graph.snapshot_dates())
            changes = changed_edges(graph, older=window["from"], newer=window["to"])
        return self._with_kinds(changes, older, newer) if kinds else changes

    def _with_kinds(self, changes: pa.Table, older: Date, newer: Date) -> pa.Table:
        from kgedit.benchmark.kinds import describe_kinds
        from kgedit.store.engine import select
        from kgedit.store.snapshots import open_snapshot

        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        earlier = [snapshot for snapshot in self.snapshots() if snapshot.date < old.date]
        with TemporaryDirectory() as spill:
            found = describe_kinds(old, new, earlier, changes, spill=Path(spill))
        return select(
            "SELECT changes.*, kind, confidence AS kind_confidence, signals AS kind_signals "
            "FROM changes JOIN found USING (subject, property) ORDER BY subject, property",
            changes=changes,
            found=found,
        )

    @names_extra
    def query(
        self,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        cypher: str | None = None,
        limit: int | None = None,
        timeout: float = 60.0,
    ) -> list[dict[str, Any]]:
        """Run a query file, or Cypher of your own that only reads, on the graph.

        Args:
            name: Of a query file (`kgedit query --list`).
            parameters: Its parameters; dates also as YYYY-MM-DD.
            cypher: Instead of a name.
            limit: Most rows; None for all.
            timeout: Seconds after which the server gives up.

        Returns:
            Rows; a node or relationship becomes a dict of its properties.

        Raises:
            UnknownNameError: if there is no such query.
            GraphError: if a parameter is wrong, or the query is refused or not finished in time.
        """
        from kgedit.graph.connection import Graph
        from kgedit.graph.queries import read_query
        from kgedit.graph.summary import graph_scope

        if (name is None) == (cypher is None):
            raise GraphError("Give the name of a query or cypher, and not both.")
        chosen = None if name is None else read_query(name)
        bound = dict(parameters or {}) if chosen is None else chosen.bind(parameters or {})
        with Graph.open(self.path) as graph:
            if chosen is not None:
                chosen.check(bound, graph.snapshot_dates(), evidence=graph_scope(graph).evidence)
            text = cypher or "" if chosen is None else chosen.text
            return graph.read_only_query(text, bound, timeout=timeout, limit=limit)

    @names_extra
    def find(self, name: str, *, limit: int = 10) -> pa.Table:
        """Items and properties by label or alias: those with exactly this name first, then those in most facts.

        Args:
            name: Words that stand together in a label or an alias, in any case.
            limit: Most rows.

        Returns:
            Columns id, label, description and facts (of any snapshot that it is in).

        Raises:
            GraphError: if there is no word in the name, or the graph cannot be read.
        """
        from kgedit.graph.connection import Graph
        from kgedit.graph.finding import check_name, find_terms

        check_name(name)
        with Graph.open(self.path) as graph:
            return find_terms(graph, name, limit=limit)

    @names_extra
    def browser_page(
        self, item: str | None = None, *, older: Date | None = None, newer: Date | None = None
    ) -> BrowserPage:
        """The page of Neo4j Browser that shows the graph.

        Args:
            item: QID of an item to begin with; its facts are shown, or with two dates what changed around it.
            older: Day of the snapshot after which changes count.
            newer: Day of the snapshot up to which they count.

        Raises:
            GraphError: if one date is given alone or without an item, the graph lacks the item or a snapshot, or the
                server has no Browser that kgedit knows.
        """
        from kgedit.graph.browser import BrowserPage, query_around
        from kgedit.graph.connection import Graph
        from kgedit.graph.finding import check_item
        from kgedit.graph.managed.server import ManagedServer

        if (older is None) != (newer is None) or (older is not None and item is None):
            raise GraphError("Give both dates or none, and dates only with an item.")
        window = {"from": str(read_date(older)), "to": str(read_date(newer))} if older and newer else {}
        with Graph.open(self.path) as graph:
            address, query = graph.address, ""
            if item is not None:
                query = query_around(item, window, graph.snapshot_dates())
                check_item(graph, item)
        url = address.browser_page(query)
        if url is None:
            raise GraphError(f"kgedit knows no Browser for {address.uri}. Open the one of that server.")
        return BrowserPage(url=url, user=address.user, password_file=ManagedServer(self.path).password_file)

    @names_extra
    def graph_status(self) -> GraphStatus:
        """Whether the graph's server runs, where, and what the graph holds. Starts nothing.

        Raises:
            GraphError: if a server that should answer does not.
        """
        from kgedit.graph.status import read_graph_status

        return read_graph_status(self.path)

    def relations(
        self,
        date: Date,
        *,
        min_subjects: int = 5,
        min_functional: float = 0.95,
        min_dated: float = 0.5,
        disagreeing: bool = False,
    ) -> pa.Table:
        """How functional each property of a snapshot is, by its statements and by Wikidata's constraints.

        Reads the store; no server is needed.

        Args:
            date: Day of the snapshot.
            min_subjects: Skip properties with fewer subjects.
            min_functional: Share of the subjects with one current value from which a property counts as functional.
            min_dated: Share of dated statements from which such a property counts as temporal functional.
            disagreeing: Only the properties of which the verdicts differ.

        Returns:
            Columns property, property_label, subjects, functional (share of the subjects with one current value), dated
            (share of the facts with a start or an end time), dated_claims (of all statements, those with a point in
            time too), the verdicts measured and declared ("temporal", "single" or "several"), constraints
            (single-value constraints on Wikidata), temporal (whether a time separates their values) and exceptions
            (whether they name some).

        Raises:
            StoreError: if the snapshot is not loaded, or a share is none.
        """
        from kgedit.store.functionality import Bounds, measure_functionality
        from kgedit.store.snapshots import open_snapshot

        bounds = Bounds(subjects=min_subjects, functional=min_functional, dated=min_dated)
        return measure_functionality(open_snapshot(self.path, read_date(date)), bounds=bounds, disagreeing=disagreeing)

    def subgraph(
        self, item: str, *, depth: int = 1, date: Date, incoming: bool = False, max_facts: int = 100_000
    ) -> nx.MultiDiGraph:
        """What lies around an item in a snapshot, as a networkx graph: every fact on a path from it.

        Reads the store; no server is needed.

        Args:
            item: Id of an item or a property.
            depth: Longest path in steps; 0 for the item alone.
            date: Day of the snapshot.
            incoming: Whether paths also go from an object to its subjects; of a country those are thousands.
            max_facts: Bound on the facts.

        Returns:
            An edge from subject to object for each current fact, with the property as its key, and with property,
            property_label, rank, statement_id, start, end, point_in_time. Nodes are ids of entities, or V... of
            literals, with distance (from the item), kind ("item", "property", "value" or "other"), label, description,
            redirect_target, and of literals value_type, unit, language, precision, calendar. What is not known is left
            out. The graph's own attributes are the arguments.

        Raises:
            StoreError: if the snapshot is not loaded or lacks the item, or the facts are more than `max_facts`.
        """
        from kgedit.api.subgraphs import subgraph
        from kgedit.store.snapshots import open_snapshot

        snapshot = open_snapshot(self.path, read_date(date))
        return subgraph(snapshot, item, depth=depth, incoming=incoming, max_facts=max_facts)

    def cycles(self, date: Date) -> pa.Table:
        """Circles in a snapshot, by subclass of and by containment: one row for each member of each.

        Filters and kinds of change follow these chains; each member of a circle counts as below, or within, all others.

        Args:
            date: Day of the snapshot.

        Returns:
            Columns relation ("subclass of" or "containment"), cycle (the member with the smallest number), id, label.

        Raises:
            StoreError: if the snapshot is not loaded.
        """
        from kgedit.api.subgraphs import cycles
        from kgedit.store.snapshots import open_snapshot

        return cycles(open_snapshot(self.path, read_date(date)))

    @names_extra
    def export_timestep(
        self,
        older: Date,
        newer: Date,
        *,
        out: str | Path | None = None,
        seed: int = 0,
        known_facts: int = 2000,
        templates: str | Path | None = None,
        personas: str | Path | None = None,
        forms: Iterable[str] | None = None,
        overwrite: bool = False,
        profile: str = "wikibigedit",
        compat: str | None = None,
        pageviews: Iterable[str | Path] = (),
        kinds: Iterable[str] = (),
        labelled_changes: str | Path | None = None,
        persona_style: str = "reworded",
        functional_by: str | None = None,
        ask_as_of: bool = False,
        changed_locality: bool = False,
        only: str | Path | None = None,
    ) -> Timestep:
        """Write the changes between two snapshots as questions; the same bytes every time.

        Args:
            older: Day of the older snapshot.
            newer: Day of the newer one.
            out: Folder to write; None for `benchmark/FROM_TO` in this home, or `benchmark/FROM_TO_PROFILE` for another
                profile than wikibigedit.
            seed: Chooses whatever is drawn by lot: personas, second hops, random neighbours.
            known_facts: Facts of the older snapshot to put into words, at most.
            templates: Template catalogue; None for the shipped one.
            personas: Folder of personas; None for the shipped ones.
            forms: Further forms to write beside the tables; None for the profile's own.
            overwrite: Whether the folder is replaced if it exists.
            profile: What counts as a change: "wikibigedit" or "wikifactdiff", which needs no graph.
            compat: wikifactdiff: "wikifactdiff-2024" for the behaviour of its released code.
            pageviews: wikifactdiff: monthly files of page views, for the popularity of entities.
            kinds: wikibigedit: kinds of change to keep, such as "update" (`docs/kinds-of-change.md`); none for all.
            labelled_changes: wikibigedit: CSV or JSON lines of labelled changes that a classifier of kinds is trained
                with; None for the shipped rules alone.
            persona_style: "reworded", or "framed": the unchanged question in a frame, which is easier.
            functional_by: What says that a relation is functional: "constraints" (wikifactdiff's default), "data", or
                "values" (wikibigedit's: each subject's own); None for the default.
            ask_as_of: Whether questions say of which day they ask: "As of 27 February 2023, who ...?".
            changed_locality: wikibigedit: whether locality probes are first sought among the facts that changed in the
                window and are no case.
            only: CSV file of the subjects and relations whose changes count (from `kgedit explore`); None for all.

        Raises:
            StoreError: if a snapshot is not loaded.
            BenchmarkError: if the folder exists, the dates are reversed, the graph lacks a snapshot, or an option is
                not the profile's.
        """
        from kgedit.api.exporting import ExportOptions, export_pair
        from kgedit.store.snapshots import open_snapshot

        options = ExportOptions(
            profile=profile,
            seed=seed,
            known_facts=known_facts,
            templates=None if templates is None else Path(templates),
            personas=None if personas is None else Path(personas),
            forms=None if forms is None else tuple(forms),
            compat=compat,
            pageviews=tuple(Path(file) for file in pageviews),
            kinds=tuple(kinds),
            labelled_changes=None if labelled_changes is None else Path(labelled_changes),
            functional_by=functional_by,
            ask_as_of=ask_as_of,
            changed_locality=changed_locality,
            persona_style=persona_style,
            only=None if only is None else Path(only),
        )
        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        folder = self._timestep_folder(old.date, new.date, profile) if out is None else Path(out)
        if folder.exists() and not overwrite:
            raise BenchmarkError(f"{folder} exists. Nothing was changed. To replace it, add --overwrite.")
        return export_pair(self.path, old, new, folder, options=options)

    @names_extra
    def export_all(
        self,
        *,
        out: str | Path | None = None,
        seed: int = 0,
        known_facts: int = 2000,
        templates: str | Path | None = None,
        personas: str | Path | None = None,
        forms: Iterable[str] | None = None,
        overwrite: bool = False,
        profile: str = "wikibigedit",
        compat: str | None = None,
        pageviews: Iterable[str | Path] = (),
        kinds: Iterable[str] = (),
        labelled_changes: str | Path | None = None,
        functional_by: str | None = None,
        ask_as_of: bool = False,
        changed_locality: bool = False,
        persona_style: str = "reworded",
        only: str | Path | None = None,
        told: Callable[[str, bool], None] | None = None,
    ) -> Stream:
        """Write the timesteps between all neighbouring snapshots, and what links them (docs/how-to/streams.md).

        Each is the same bytes as `export_timestep` writes. One that is there already and is the same is kept, so that
        a call that was interrupted resumes.

        Args:
            out: Folder for the timesteps' folders and that of the stream; None for `benchmark` in this home. The
                further arguments are those of `export_timestep`.
            overwrite: Whether a timestep that was made otherwise is replaced.
            told: Told of each timestep's name, and whether it was kept.

        Raises:
            BenchmarkError: if there are fewer than two snapshots, a folder holds a timestep that was made otherwise,
                the graph lacks a snapshot, or an option is not the profile's.
        """
        from kgedit.api.exporting import ExportOptions, export_stream

        options = ExportOptions(
            profile=profile,
            seed=seed,
            known_facts=known_facts,
            templates=None if templates is None else Path(templates),
            personas=None if personas is None else Path(personas),
            forms=None if forms is None else tuple(forms),
            compat=compat,
            pageviews=tuple(Path(file) for file in pageviews),
            kinds=tuple(kinds),
            labelled_changes=None if labelled_changes is None else Path(labelled_changes),
            functional_by=functional_by,
            ask_as_of=ask_as_of,
            changed_locality=changed_locality,
            persona_style=persona_style,
            only=None if only is None else Path(only),
        )
        benchmark = self.path / "benchmark" if out is None else Path(out)
        return export_stream(
            self.path, benchmark, options=options, overwrite=overwrite, told=told or (lambda _name, _kept: None)
        )

    def timestep(self, older: Date, newer: Date, *, profile: str = "wikibigedit") -> Timestep:
        """The timestep that `export_timestep` wrote into this home.

        Raises:
            BenchmarkError: if there is none.
        """
        from kgedit.benchmark.timestep import Timestep
        from kgedit.wikidata.times import day_number

        days = (day_number(read_date(older)), day_number(read_date(newer)))
        return Timestep.open(self._timestep_folder(*days, profile))

    def audit(self, path: str | Path, older: Date, newer: Date) -> Audit:
        """Check a file of edits, or a timestep, against two snapshots; no graph is needed.

        Args:
            path: A file in any form that `run` takes, or the folder of a timestep.
            older: Day of the snapshot at which the edits did not hold yet.
            newer: Day of the one at which they do.

        Raises:
            StoreError: if a snapshot is not loaded.
            BenchmarkError: if the file cannot be read, or the dates are reversed.
        """
        from kgedit.benchmark.audit import audit_edits
        from kgedit.benchmark.edit_files import open_edits
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import open_snapshot

        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        spill = self.path / "snapshots" / f".audit-{os.getpid()}"
        with disk_errors(self.path, again="give the same command again"):
            return audit_edits(open_edits(Path(path)), old, new, spill=spill)

    @names_extra
    def stop_graph(self) -> bool:
        """Stop the home's own graph server; False if none ran."""
        from kgedit.graph.managed.server import ManagedServer

        return ManagedServer(self.path).stop()

    def _timestep_folder(self, older: int, newer: int, profile: str) -> Path:
        from kgedit.benchmark.timestep import timestep_folder

        return timestep_folder(self.path / "benchmark", older, newer, profile)


def folder_of(home: Home | str | Path | None) -> Path | None:
    """The folder of a home given as an object or a path; None for None."""
    if home is None:
        return None
    return home.path if isinstance(home, Home) else Path(home)


def read_date(date: Date) -> datetime.date:
    """A day.

    Raises:
        StoreError: if a text is none.
    """
    if isinstance(date, datetime.datetime):
        return date.date()
    if isinstance(date, datetime.date):
        return date
    try:
        return datetime.date.fromisoformat(date)
    except ValueError as error:
        raise StoreError(f"'{date}' is no date. Give YYYY-MM-DD.") from error
