"""Part of a snapshot as a networkx graph, and cycles of its classes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kgedit.store.closures import list_cycles
from kgedit.store.snapshots import Snapshot
from kgedit.store.subgraphs import read_subgraph

if TYPE_CHECKING:
    import networkx as nx
    import pyarrow as pa


def subgraph(snapshot: Snapshot, item: str, *, depth: int, incoming: bool, max_facts: int) -> nx.MultiDiGraph:
    """Neighbourhood of an item; see kgedit.Home.subgraph."""
    import networkx as nx

    with TemporaryDirectory() as spill:
        found = read_subgraph(
            snapshot, item, depth=depth, incoming=incoming, max_facts=max_facts, spill=Path(spill) / "spill"
        )
    graph = nx.MultiDiGraph(snapshot=snapshot.name, item=item, depth=depth, incoming=incoming)
    for term in found.terms.to_pylist():
        graph.add_node(term.pop("id"), **_known(term))
    for fact in found.facts.to_pylist():
        subject, target = fact.pop("subject"), fact.pop("object")
        graph.add_edge(subject, target, key=fact["property"], **_known(fact))
    return graph


def cycles(snapshot: Snapshot) -> pa.Table:
    """Cycles of a snapshot's classes and containers; see kgedit.Home.cycles."""
    with TemporaryDirectory() as spill:
        return list_cycles(snapshot, spill=Path(spill) / "spill")


def _known(attributes: dict[str, object]) -> dict[str, object]:
    """Attributes that are not null; formats such as GraphML have no null."""
    return {name: value for name, value in attributes.items() if value is not None}
