"""`graph`: starts the server of a home, and updates its graph to match the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kgedit.errors import GraphError
from kgedit.progress import Steps, advancing
from kgedit.store.scope import Scope
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import HomeVerb, Names, OneOf, flag, options, python_only

if TYPE_CHECKING:
    from kgedit.graph.bolt import Address
    from kgedit.graph.projection import GraphContent


@options
class ScopeOptions:
    """Part of the store that the graph contains."""

    evidence: bool | None = flag(
        "--evidence/--no-evidence",
        default=None,
        group="Output",
        help="With or without the versions of statements behind the facts. Default: with.",
    )
    objects: Annotated[str, OneOf(("all", "items"))] | None = flag(
        "--facts", default=None, group="Output", help="All facts, or item-valued ones only."
    )
    properties: Names = flag(
        "--property",
        default=(),
        group="Output",
        metavar="PID",
        complete="properties",
        help="Only facts of this property; repeat.",
    )
    around_changes: bool | None = flag(
        "--around-changes/--everything",
        default=None,
        group="Output",
        help="Only what is near a change, or everything.",
    )
    changed_pairs: bool | None = flag(
        "--changed-pairs/--all-pairs",
        default=None,
        group="Output",
        help="Only facts of a changed subject and property: the smallest graph.",
    )

    def scope(self) -> Scope | None:
        """The scope; None if no option was given."""
        if not (self.properties or self.objects) and {self.evidence, self.around_changes, self.changed_pairs} <= {None}:
            return None
        return Scope(
            evidence=self.evidence is not False,
            items_only=self.objects == "items",
            properties=tuple(self.properties),
            around_changes=bool(self.around_changes),
            changed_pairs=bool(self.changed_pairs),
        )


@options
class ForGraph:
    """Options for the graph that a change of the store updates."""

    scope: Scope | None = python_only(
        default=None, help="Part of the store that the graph contains; None means its current scope."
    )
    progress: Steps | None = python_only(
        default=None, help="Called with every step. None shows a progress line in a notebook or a terminal."
    )

    def refuse_unused_scope(self, *, graph: bool) -> None:
        """Raise GraphError if a scope is given, but the graph is not updated."""
        if self.scope is not None and not graph:
            raise GraphError("graph=False does not update the graph. Leave scope out.")

    def update(self, home: Path, *, rebuild: bool = False) -> GraphContent:
        """Update the graph to match the store, and return its content."""
        from kgedit.graph.projection import bring_up_to_date
        from kgedit.store.snapshots import list_snapshots

        report = (self.progress or step_line)("Writing the graph", 100, "rows")
        with advancing(report):
            return bring_up_to_date(home, list_snapshots(home), rebuild=rebuild, scope=self.scope)


@options
class UpdateGraph(ForGraph, HomeVerb["GraphContent"]):
    """Update the graph to match the store, and return its content."""

    rebuild: bool = python_only(default=False, help="Whether to rebuild it from scratch.")

    def run(self, home: Path) -> GraphContent:
        """Update the graph.

        Raises:
            StoreError: if the store contains no snapshot.
            GraphError: if the graph cannot be written, or has another scope.
        """
        return self.update(home, rebuild=self.rebuild)


@options
class StartGraph(HomeVerb["Address"]):
    """Start the server; print its Bolt address and Browser page.

    A running server is not changed. The server runs until `kgedit graph stop`, or with --idle-stop until no client has
    been connected for that long (an open page of Neo4j Browser counts as a client). KGEDIT_GRAPH_IDLE_STOP=30m does the
    same for servers that other commands start.
    """

    idle_stop: str | None = flag(
        default=None, metavar="TIME", help="Stop it after this long without a client: 30m, 2h; off for never."
    )

    def run(self, home: Path) -> Address:
        """Start the server.

        Raises:
            GraphError: if `idle_stop` is not a time, or the server does not start.
        """
        from kgedit.graph.managed.processes import parse_idle_stop
        from kgedit.graph.managed.server import ManagedServer

        seconds = None if self.idle_stop is None else parse_idle_stop(self.idle_stop, "--idle-stop")
        return ManagedServer(home).start(idle_stop=seconds)
