"""Builds memory files from timesteps, snapshots or a graph, optionally on top of an earlier memory.

Building embeds nothing, so a memory file works with any embedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgedit import __version__
from kgedit.errors import KgeditError, StoreError
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.intervals import DATED_FACTS, Learned, learn_dated_facts, unhinted_names
from kgedit.graph_memory.languages import ENGLISH
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.memory_file import read_memory_file, signature_of, write_memory_file
from kgedit.llm.embeddings import Vectors, embedder_on_demand
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.store.timeline import open_timeline
from kgedit.store.window import Window
from kgedit.timesteps.timestep import Timestep
from kgedit.wikidata.times import OPEN_END, day_number
from kgedit.wording.templates import template_version

if TYPE_CHECKING:
    from kgedit.graph_memory.graph_store import GraphFacts

_FACTS = f"""
    SELECT f.subject, s.label AS subject_label, s.description AS subject_description, s.aliases AS subject_aliases,
           f.property, f.property_label, f.object, o.label AS object_label, f.start_time, f.end_time,
           f.since::BIGINT AS since, nullif(f.until, {OPEN_END})::BIGINT AS until
    FROM whole_facts f JOIN whole_terms s ON s.id = f.subject JOIN whole_terms o ON o.id = f.object
    WHERE f.subject[1] = 'Q' ORDER BY f.since, f.subject, f.property, f.object
"""


@dataclass(frozen=True, slots=True)
class BuiltMemory:
    """A written memory file.

    Attributes:
        path: Path of the file.
        manifest: See kgedit.graph_memory.memory_file.MemoryFile.
        sha256: SHA-256 of the file.
    """

    path: Path
    manifest: dict[str, Any]
    sha256: str


class MemoryBuilder:
    """Adds sources, oldest first, and writes one file.

    Args:
        base: Memory file to extend; None means an empty memory.
        language: Language of labels and questions; None means that of `base`, or English.

    Raises:
        KgeditError: if there is no lexicon for the language, or `base` is in another one.
    """

    def __init__(self, base: Path | None = None, *, language: str | None = None) -> None:
        self._memory = GraphMemory(_embeds_nothing, language=language or ENGLISH)
        self._sources: list[dict[str, Any]] = []
        if base is not None:
            earlier = read_memory_file(base)
            self._memory.load_tables(earlier.tables)
            self._sources += [*earlier.manifest["sources"]]
            if language not in (None, self._memory.language):
                raise KgeditError(f"{base} is in the language '{self._memory.language}', and not in '{language}'.")

    def add_timestep(self, timestep: Timestep) -> None:
        """Learn the cases of a timestep."""
        before = len(self._memory)
        self._memory.learn(timestep.cases())
        source = {"kind": "timestep", "name": timestep.name, "sha256": timestep.sha256}
        self._sources.append({**source, "projected": timestep.is_projected, "facts": len(self._memory) - before})

    def add_snapshots(self, home: Path, *, as_of: date | None = None, properties: Sequence[str] = ()) -> Learned:
        """Add the facts between items in the snapshots of a home up to a day, with their intervals.

        Args:
            home: Home folder.
            as_of: Last day; None means the day of the newest snapshot.
            properties: Properties to add; empty means all.

        Raises:
            StoreError: if no snapshot is dated on or before that day.
        """
        snapshots = [one for one in list_snapshots(home) if as_of is None or one.date <= day_number(as_of)]
        if not snapshots:
            when = "" if as_of is None else f" of {as_of} or before"
            raise StoreError(f"No snapshot{when} is loaded in {home}. Load one: kgedit load-dump PATH --date DATE")
        check_language(snapshots, self._memory.language)
        facts = read_dated_facts(snapshots, properties)
        learned = learn_dated_facts(
            self._memory,
            facts,
            as_of=as_of or snapshots[-1].day,
            subjects=_names_of_subjects(snapshots[-1], facts),
        )
        hashes = {one.name: one.manifest["source"].get("sha256") for one in snapshots}
        self._add_source({"kind": "snapshots", "snapshots": hashes}, learned, as_of or snapshots[-1].day, properties)
        return learned

    def add_graph_facts(self, held: GraphFacts, *, address: str, properties: Sequence[str] = ()) -> Learned:
        """Learn facts that were read from a graph.

        Args:
            held: The facts.
            address: Address of the graph, recorded as provenance.
            properties: Properties that were requested; recorded as provenance.
        """
        learned = learn_dated_facts(self._memory, held.facts, as_of=held.as_of, subjects=held.subjects)
        source = {"kind": "graph", "address": address, "snapshots": list(held.snapshots)}
        self._add_source(source, learned, held.as_of, properties)
        return learned

    def write(self, path: Path, *, overwrite: bool = False) -> BuiltMemory:
        """Write the memory.

        Raises:
            KgeditError: if the memory is empty, or the file exists and `overwrite` is false.
        """
        if not len(self._memory):
            raise KgeditError(
                "The memory would contain no facts and was not written. Give sources with facts or cases."
            )
        if path.exists() and not overwrite:
            raise KgeditError(f"{path} exists. Nothing was changed. To replace it, add --overwrite.")
        manifest = {
            "kgedit": __version__,
            "templates": template_version(),
            "sources": self._sources,
            "signature": signature_of(self._sources),
            "counts": self._memory.counts(),
        }
        if self._memory.language != ENGLISH:
            manifest["language"] = self._memory.language
        return BuiltMemory(path, manifest, write_memory_file(path, self._memory.tables(), manifest))

    def _add_source(self, source: dict[str, Any], learned: Learned, as_of: date, properties: Sequence[str]) -> None:
        asked = {"as_of": as_of.isoformat(), "properties": sorted(properties)}
        self._sources.append({**source, **asked, "facts": learned.facts, "left_out": learned.left_out})


def read_dated_facts(snapshots: Sequence[Snapshot], properties: Sequence[str] = ()) -> pa.Table:
    """Facts between items in some snapshots, with the schema DATED_FACTS.

    Args:
        snapshots: Oldest first.
        properties: Properties to read; empty means all.
    """
    scope = Scope(evidence=False, items_only=True, properties=tuple(properties))
    with TemporaryDirectory() as spill, open_timeline(snapshots, scope, spill=Path(spill)) as connection:
        found: pa.Table = connection.sql(_FACTS).to_arrow_table()
    return found.cast(DATED_FACTS)


def check_language(snapshots: Sequence[Snapshot], language: str) -> None:
    """Check that the labels of snapshots are in the language of a memory.

    Raises:
        StoreError: with the command that loads them in that language.
    """
    for snapshot in snapshots:
        labels = snapshot.manifest["loader"]["languages"]
        if labels[0] != language and language != ENGLISH:
            raise StoreError(
                f"The labels of {snapshot.name} are in '{labels[0]}', and the memory would be in '{language}'. "
                f"Load the dumps into another home, with the languages {language} and {ENGLISH} in this order."
            )


def open_memory(path: Path, *, embedder: str, device: str) -> GraphMemory:
    """Open a memory file, with an embedder that is loaded at first use.

    Args:
        path: Path of the file.
        embedder: See kgedit.llm.embeddings.load_embedder.
        device: Device of the embedder.

    Raises:
        KgeditError: if the file is not a memory.
    """
    memory = GraphMemory(
        embedder_on_demand(embedder, device=device, reduced=True),
        gate=read_gate(embedder),
        matcher=read_matcher(embedder),
    )
    memory.load_tables(read_memory_file(path).tables)
    return memory


def _names_of_subjects(snapshot: Snapshot, facts: pa.Table) -> pa.Table:
    with TemporaryDirectory() as spill, Window(snapshot, snapshot, spill=Path(spill)) as window:
        return unhinted_names(window.connection, facts)


def _embeds_nothing(texts: Sequence[str]) -> Vectors:
    raise AssertionError(f"a memory was asked while it was built: {texts[:1]}")
