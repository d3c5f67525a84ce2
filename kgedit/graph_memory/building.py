"""Builds memory files from timesteps, snapshots or a graph, optionally on top of an earlier memory.

Building embeds nothing, so a memory file works with any embedder. Store and graph give the same facts with their
intervals, current and ended ones, because the graph is a projection of the store (kgedit.store.timeline). Facts are
learned snapshot by snapshot, ends before beginnings, so that a value that returned has two intervals. A graph is read
page by page (cypher/read/memory_facts.cypher).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from kgedit import __version__
from kgedit.errors import GraphError, KgeditError, StoreError
from kgedit.graph.queries import read_query
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import LEARNED_AT_ONCE, GraphMemory
from kgedit.graph_memory.languages import ENGLISH
from kgedit.graph_memory.learning import LEARNED
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.memory_file import read_memory_file, signature_of, write_memory_file
from kgedit.llm.embeddings import Vectors, embedder_on_demand
from kgedit.store.engine import open_in_memory, select
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.store.timeline import open_timeline
from kgedit.store.window import Window
from kgedit.timesteps.labels import SUBJECTS, describe_subjects, is_id
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wording import choose_templates, word_facts
from kgedit.wikidata.ids import INSTANCE_OF, SUBCLASS_OF
from kgedit.wikidata.times import OPEN_END, day_number
from kgedit.wording.names import name_rules
from kgedit.wording.templates import template_version

if TYPE_CHECKING:
    from kgedit.graph.connection import Graph

# Not in one query, which would hold the hash tables of all its joins beside the rows to sort.
_FACTS = (
    f"""
    CREATE TABLE item_fact AS
    SELECT subject, property, property_label, object, start_time, end_time,
           since::BIGINT AS since, nullif(until, {OPEN_END})::BIGINT AS until
    FROM whole_facts WHERE subject[1] = 'Q'
    """,
    "CREATE TABLE item_name AS SELECT id, label, description, aliases FROM whole_terms WHERE id[1] = 'Q'",
    """
    CREATE TABLE valued_fact AS
    SELECT f.*, o.label AS object_label FROM item_fact f JOIN (SELECT id, label FROM item_name) o ON o.id = f.object
    """,
    "DROP TABLE item_fact",
    """
    CREATE TABLE named_fact AS
    SELECT f.*, s.label AS subject_label, s.description AS subject_description, s.aliases AS subject_aliases
    FROM valued_fact f JOIN item_name s ON s.id = f.subject
    """,
    "DROP TABLE valued_fact",
)
"""Statements that create named_fact, with the columns DATED_FACTS, in a timeline of facts between items."""


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
        for statement in _FACTS:
            connection.execute(statement)
        ordered = f"SELECT {', '.join(DATED_FACTS.names)} FROM named_fact ORDER BY since, subject, property, object"
        found: pa.Table = connection.sql(ordered).to_arrow_table()
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


_STRINGS = pa.list_(pa.string())
DATED_FACTS = pa.schema(
    [
        *((name, pa.string()) for name in ("subject", "subject_label", "subject_description")),
        ("subject_aliases", _STRINGS),
        *((name, pa.string()) for name in ("property", "property_label", "object", "object_label")),
        *((name, pa.string()) for name in ("start_time", "end_time")),
        ("since", pa.int64()),
        ("until", pa.int64()),
    ]
)
"""Facts between items. since and until are day numbers of the first snapshot with the fact and the first one without;
start_time and end_time are those of its statement, at their precision. Labels and times may be null."""

_REASONS = (
    ("no label of the subject", f"subject_label IS NULL OR {is_id('subject_label')}"),
    ("no label of the object", f"object_label IS NULL OR {is_id('object_label')}"),
    ("no label of the property", f"property_label IS NULL OR {is_id('property_label')}"),
)


@dataclass(frozen=True, slots=True)
class Learned:
    """Counts of learned facts.

    Attributes:
        facts: Number of learned facts, including ended ones.
        left_out: Number of facts that were not learned, by reason.
    """

    facts: int
    left_out: dict[str, int]


def learn_dated_facts(
    memory: GraphMemory, facts: pa.Table, *, as_of: date, subjects: pa.Table | None = None
) -> Learned:
    """Add facts to a memory as of a day.

    Args:
        memory: Memory to extend.
        facts: Table with the schema DATED_FACTS, in any order.
        as_of: Facts that began later are not learned; ends after this day are ignored.
        subjects: Names of subjects with the schema kgedit.timesteps.labels.SUBJECTS; None means their labels.
    """
    day = as_of.year * 10_000 + as_of.month * 100 + as_of.day
    reasons = " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in _REASONS)
    judged = select(
        f"""
        SELECT * REPLACE (CASE WHEN until <= $day THEN until END AS until), CASE {reasons} END AS reason
        FROM facts WHERE since <= $day ORDER BY since, subject, property, object
        """,
        {"day": day},
        facts=facts,
    )
    left_out = Counter(reason for reason in judged["reason"].to_pylist() if reason)
    kept = judged.filter(pc.is_null(judged["reason"]))
    if kept.num_rows:
        _learn(memory, kept, SUBJECTS.empty_table() if subjects is None else subjects)
    return Learned(kept.num_rows, dict(sorted(left_out.items())))


def unhinted_names(connection: duckdb.DuckDBPyConnection, facts: pa.Table) -> pa.Table:
    """Names of subjects without the hints that distinguish namesakes; the memory adds hints where needed.

    Args:
        connection: See kgedit.timesteps.labels.describe_subjects.
        facts: Table with the schema DATED_FACTS.
    """
    found = describe_subjects(connection, facts.filter(facts["subject_label"].is_valid()))
    place = found.schema.get_field_index("hinted_names")
    return found.set_column(place, "hinted_names", pa.nulls(found.num_rows, pa.list_(pa.string())))


def _learn(memory: GraphMemory, facts: pa.Table, subjects: pa.Table) -> None:
    templates = choose_templates(facts, catalogue=None)
    since = _stated("start_time", "since")
    dated = select(
        f"""
        SELECT CASE WHEN until IS NOT NULL THEN {_stated("end_time", "until")} END AS stated_until,
               -- A start surely after the end is unknown (FactTable.end_value). "2020-99" is after every day of 2020.
               CASE WHEN stated_until || '-99' < {since} THEN '' ELSE {since} END AS stated_since, *
        FROM facts ORDER BY since, subject, property, object
        """,
        facts=facts,
    )
    days = sorted({day for name in ("since", "until") for day in pc.unique(dated[name]).to_pylist() if day is not None})
    for day in days:
        ended = dated.filter(pc.equal(dated["until"], day))
        memory.end_values(ended["subject"], ended["property"], ended["object"], ended["stated_until"])
        begun = dated.filter(pc.equal(dated["since"], day))
        for start in range(0, begun.num_rows, LEARNED_AT_ONCE):
            memory.learn_table(_worded(begun.slice(start, LEARNED_AT_ONCE), templates, subjects))


def _worded(facts: pa.Table, templates: pa.Table, subjects: pa.Table) -> pa.Table:
    """Facts as a memory learns them; their wordings take a kilobyte each."""
    rows = select(
        """
        SELECT concat_ws(':', subject, property, object) AS case_id, trim(subject_label) AS subject_label,
               coalesce(subject_description, '') AS subject_description,
               coalesce(subject_aliases, []) AS subject_aliases, trim(object_label) AS object_label,
               trim(object_label) AS answer, stated_since AS since, [] AS old_objects, [] AS old_answers,
               * EXCLUDE (subject_label, subject_description, subject_aliases, object_label, since)
        FROM worded ORDER BY subject, property, object
        """,
        worded=word_facts(facts, templates, subjects),
    )
    return rows.select(LEARNED.names).cast(LEARNED)


def _stated(own: str, seen: str) -> str:
    """SQL: the statement's date if it is valid and not after the snapshot's day, else the snapshot's day."""
    day = f"strptime({seen}::VARCHAR, '%Y%m%d')::DATE::VARCHAR"
    return rf"CASE WHEN regexp_matches({own}, '^\d{{4}}(-\d\d){{0,2}}$') AND {own} <= {day} THEN {own} ELSE {day} END"


_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Facts read from a graph.

    Attributes:
        facts: Table with the schema DATED_FACTS.
        subjects: Names of the subjects in questions, with the schema kgedit.timesteps.labels.SUBJECTS.
        snapshots: Day numbers of the graph's snapshots up to `as_of`.
        as_of: Last day.
    """

    facts: pa.Table
    subjects: pa.Table
    snapshots: tuple[int, ...]
    as_of: date


def read_graph_facts(graph: Graph, *, as_of: date | None = None, properties: Sequence[str] = ()) -> GraphFacts:
    """Read all facts between items of a graph.

    Args:
        graph: An open graph.
        as_of: Facts first seen after this day are excluded; None means the day of the newest snapshot.
        properties: Properties to read; empty means all.

    Raises:
        GraphError: if no snapshot of the graph is dated on or before that day.
    """
    snapshots, newest = _snapshots(graph, as_of)
    read = sorted({*properties, *_showing_classes()}) if properties else ()
    rows = [row for page in _pages(graph, newest, read) for row in page]
    every = pa.Table.from_pylist(rows, schema=DATED_FACTS)
    facts = every.filter(pc.is_in(every["property"], pa.array(properties, pa.string()))) if properties else every
    return GraphFacts(facts, _names_by_facts(facts, every), snapshots, as_of or _day(newest))


def _showing_classes() -> set[str]:
    """Properties that indicate the class of an item."""
    return {INSTANCE_OF, SUBCLASS_OF, *(name for names in name_rules().evidence.values() for name in names)}


def _names_by_facts(facts: pa.Table, every: pa.Table) -> pa.Table:
    """Names of the subjects of some facts, by the classes that facts between items indicate.

    Unlike in the store, a class that only dates or numbers indicate is not found.
    """
    with open_in_memory() as connection:
        connection.register("every", every)
        connection.execute(
            """
            CREATE VIEW new_facts AS SELECT subject, property, object FROM every WHERE until IS NULL;
            CREATE VIEW old_facts AS FROM new_facts;
            CREATE VIEW new_entities AS SELECT DISTINCT ON (id) * FROM (
                SELECT subject AS id, subject_label AS label, subject_description AS description, 'item' AS kind
                FROM every UNION ALL SELECT object, object_label, NULL, 'item' FROM every
            ) ORDER BY id, description NULLS LAST;
            CREATE VIEW old_entities AS FROM new_entities;
            """
        )
        return unhinted_names(connection, facts)


def _pages(graph: Graph, newest: int, properties: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    after = ""
    while rows := _rows(graph, "memory_facts", {"date": newest, "after": after, "properties": list(properties)}):
        after = rows[-1]["subject"]
        yield rows


def _rows(graph: Graph, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    query = read_query(name)
    return graph.read_only_query(query.text, query.bind(parameters), timeout=_TIMEOUT)


def _snapshots(graph: Graph, as_of: date | None) -> tuple[tuple[int, ...], int]:
    held = tuple(day for day in sorted(graph.snapshot_dates()) if as_of is None or day <= day_number(as_of))
    if not held:
        when = "" if as_of is None else f" of {as_of} or before"
        raise GraphError(f"The graph contains no snapshot{when}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
    return held, held[-1]


def _day(number: int) -> date:
    return date(number // 10_000, number // 100 % 100, number % 100)
