"""Claims of a file's rows as Arrow tables, and both snapshots with these claims in one DuckDB connection.

An id that the file does not give is null and resolved from its label. Views and tables of the connection: old_facts,
new_facts, new_statements, old_entities, new_entities, claimed_edits, claimed_near, claimed_hops, claimed_questions, and
names (id, name). Ids that the newer snapshot redirects are replaced by those of their targets everywhere. Names are
compared without case, punctuation and repeated spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.records.cases import Case, Fact
from kgedit.store.engine import literal, open_engine
from kgedit.store.facts import TERM, VALUE_TYPE
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.audit.literals import MACROS, add_literals
from kgedit.timesteps.edit_files import EditFile, Edits
from kgedit.timesteps.edit_files.contract import CaseDetails
from kgedit.timesteps.filters import gives_away, letters
from kgedit.timesteps.timestep import Timestep
from kgedit.wikidata.ids import is_entity_id

_STRINGS = pa.list_(pa.string())

_LITERAL = re.compile("V[0-9a-f]{32}").fullmatch
"""Matches the id of a literal, as in facts and timesteps (kgedit.store.facts)."""

EDITS = pa.schema(
    [
        ("place", pa.int64()),
        ("case_id", pa.string()),
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),
        ("answer", pa.string()),
        ("question", pa.string()),
        ("tag", pa.string()),  # null if the file's format declares none
        ("old_objects", _STRINGS),  # ids; empty if the file gives none
        ("old_answers", _STRINGS),
        ("other_objects", _STRINGS),  # ids or labels of other facts in the row
        ("several_allowed", pa.bool_()),
        ("new_entity", pa.bool_()),
    ]
)

HOPS = pa.schema(
    [
        ("place", pa.int64()),
        ("probe", pa.int64()),
        ("subject", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),
        ("question", pa.string()),
        ("answer", pa.string()),
    ]
)

"""The second fact: its subject is null if the file does not give it."""

NEAR = HOPS.append(pa.field("may_have_changed", pa.bool_()))
"""Fact of a locality question, and whether the file states that it became true in the window."""

QUESTIONS = pa.schema(
    [
        ("place", pa.int64()),
        ("part", pa.string()),
        ("probe", pa.int64()),
        ("question", pa.string()),
        ("answer", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Tables with the schemas EDITS, NEAR, HOPS and QUESTIONS, and what is not checked: reason -> questions."""

    edits: pa.Table
    near: pa.Table
    hops: pa.Table
    questions: pa.Table
    left_out: Mapping[str, int]


def claimed_rows(edits: Edits) -> Claimed:
    """Collect all claims of the rows, in the order of the file."""
    rows: dict[str, list[dict[str, Any]]] = {"edits": [], "near": [], "hops": [], "questions": []}
    left_out: Counter[str] = Counter()
    declares_tag = edits.edit_format.declares_tag if isinstance(edits, EditFile) else True
    one_value = edits.edit_format.one_value if isinstance(edits, EditFile) else not _lists_all_values(edits)
    for place, (case, details) in enumerate(_with_details(edits)):
        rows["edits"].append(_edit(place, case, details, declares_tag=declares_tag, one_value=one_value))
        for number, probe in enumerate(case.probes):
            asked = {"place": place, "probe": number, "question": probe.question, "answer": probe.answers[0]}
            if probe.axis == "locality":
                rows["near"].append(asked | _ids(probe.facts[0]) | {"may_have_changed": probe.changed})
                part = "locality"
            elif probe.axis == "mhop" and (len(probe.facts) > 2 or _ids(probe.facts[0]) != _ids(case.fact)):
                left_out["multi-hop questions of more than two facts, or whose first fact is not the edit"] += 1
                continue
            elif probe.axis == "mhop":
                rows["hops"].append(asked | _ids(probe.facts[-1]))
                part = "two hops"
            else:
                part = "edit"
            rows["questions"].append({"part": part, **asked})
    schemas = {"edits": EDITS, "near": NEAR, "hops": HOPS, "questions": QUESTIONS}
    tables = {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in schemas.items()}
    return Claimed(**tables, left_out=left_out)


def _with_details(edits: Edits) -> Iterator[tuple[Case, CaseDetails]]:
    if isinstance(edits, EditFile):
        return edits.details()
    scenario = "AddEntity" if _lists_all_values(edits) else None
    return ((case, CaseDetails(scenario=scenario)) for case in edits.cases())


def _lists_all_values(edits: Edits) -> bool:
    """Whether edits are a timestep of WikiFactDiff's profile, where several values and new subjects are valid."""
    return isinstance(edits, Timestep) and edits.manifest.get("profile") == "wikifactdiff"


def _edit(place: int, case: Case, details: CaseDetails, *, declares_tag: bool, one_value: bool) -> dict[str, Any]:
    return {
        "place": place,
        "case_id": case.case_id,
        "subject_label": case.fact.subject_label,
        "answer": case.answer,
        "question": case.question,
        "tag": case.tag if declares_tag else None,
        "old_objects": [old for old in case.old_objects if _is_id(old)],
        "old_answers": list(case.old_answers),
        "other_objects": list(details.other_objects),
        "several_allowed": not one_value,
        "new_entity": details.scenario == "AddEntity",
        **_ids(case.fact),
    }


def _ids(fact: Fact) -> dict[str, str | None]:
    given = {"subject": fact.subject, "property": fact.property, "object": fact.object}
    return {name: value if _is_id(value) else None for name, value in given.items()}


def _is_id(text: str) -> bool:
    return is_entity_id(text) or _LITERAL(text) is not None


_MEMORY = "640MB"
"""Memory limit of DuckDB; the rest spills to disk."""

LONGEST_NAME = 8
"""Maximum number of words of a name that is searched for in a question."""


@contextmanager
def open_snapshots(
    old: Snapshot, new: Snapshot, claimed: Claimed, *, spill: Path
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the connection; it is closed on exit."""
    with open_engine(spill, memory=_MEMORY) as connection:
        connection.execute(_MACROS)
        for name, snapshot in (("old", old), ("new", new)):
            connection.execute(
                f"CREATE VIEW {name}_entities AS FROM {literal(snapshot.entities)} WHERE redirect_target IS NULL"
            )
        connection.execute(
            f"CREATE TABLE redirects AS SELECT id, redirect_target AS target FROM {literal(new.entities)} "
            "WHERE redirect_target IS NOT NULL"
        )
        _add_claims(connection, claimed)
        _add_facts(connection, old, new)
        yield connection


_MACROS = f"""
    CREATE MACRO bare(text) AS {letters("text")};
    CREATE MACRO names_it(question, name) AS {gives_away("question", "name")};
    {MACROS}
"""
"""Comparison of names and literals."""


def _add_claims(connection: duckdb.DuckDBPyConnection, claimed: Claimed) -> None:
    for name in _CLAIMED:
        connection.register("given", getattr(claimed, name))
        connection.execute(f"CREATE TABLE claimed_{name} AS FROM given")
        connection.unregister("given")
    _follow_redirects(connection)


_CLAIMED = ("edits", "near", "hops", "questions")


def _follow_redirects(connection: duckdb.DuckDBPyConnection) -> None:
    """Replace ids of claims by the targets of their redirects."""
    for name in ("edits", "near", "hops"):
        moved = ", ".join(f"coalesce({one}_to.target, given.{one}) AS {one}" for one in ("subject", "object"))
        if name == "edits":
            moved += ", coalesce((SELECT list(coalesce(target, old.id)) FROM unnest(old_objects) AS old(id) "
            moved += "LEFT JOIN redirects USING (id)), []) AS old_objects"
        joins = " ".join(f"LEFT JOIN redirects {one}_to ON {one}_to.id = given.{one}" for one in ("subject", "object"))
        replaced = f"SELECT given.* REPLACE ({moved}) FROM claimed_{name} given {joins}"
        connection.execute(f"CREATE OR REPLACE TABLE claimed_{name} AS {replaced}")


_WANTED = """
    CREATE TABLE wanted AS
    SELECT bare(subject_label) AS name FROM claimed_edits WHERE subject IS NULL
    UNION SELECT bare(answer) FROM claimed_edits WHERE object IS NULL
    UNION SELECT bare(unnest(old_answers)) FROM claimed_edits
    UNION SELECT bare(answer) FROM claimed_near WHERE object IS NULL
    UNION SELECT bare(answer) FROM claimed_hops WHERE object IS NULL
    UNION SELECT name FROM mentioned
"""

_MENTIONED = f"""
    CREATE TABLE mentioned AS
    WITH asked AS (
        SELECT place, probe, string_split(bare(question), ' ') AS words FROM claimed_near WHERE subject IS NULL
    ), started AS (
        SELECT *, unnest(range(1, len(words) + 1)) AS first FROM asked
    ), taken AS (
        SELECT *, unnest(range(1, {LONGEST_NAME} + 1)) AS taken FROM started
    )
    SELECT DISTINCT place, probe, array_to_string(words[first:first + taken - 1], ' ') AS name
    FROM taken WHERE first + taken - 1 <= len(words)
"""
"""All runs of words of locality questions without a subject in the file."""

_NAMES = """
    CREATE TABLE names AS
    WITH every_name AS (
        SELECT id, unnest([label] || coalesce(aliases, [])) AS name FROM new_entities
        UNION ALL
        SELECT coalesce(target, id), unnest([label] || coalesce(aliases, []))
        FROM old_entities LEFT JOIN redirects USING (id)
    )
    SELECT DISTINCT id, bare(name) AS name FROM every_name
    WHERE name IS NOT NULL AND bare(name) IN (SELECT name FROM wanted) AND id[1] = 'Q'
"""


def _add_facts(connection: duckdb.DuckDBPyConnection, old: Snapshot, new: Snapshot) -> None:
    """Load facts of the subjects that the file may mean, and the newer snapshot's statements of its edits' subjects."""
    connection.execute(_MENTIONED)
    connection.execute(_WANTED)
    connection.execute(_NAMES)
    connection.execute(
        """
        CREATE TABLE meant AS
        SELECT id FROM (
            SELECT subject AS id FROM claimed_edits UNION SELECT subject FROM claimed_near
            UNION SELECT subject FROM claimed_hops UNION SELECT object FROM claimed_hops
            UNION SELECT object FROM claimed_edits
            UNION SELECT unnest(old_objects) FROM claimed_edits UNION SELECT id FROM names
        ) WHERE id IS NOT NULL
        """
    )
    # Values that the edits replace: a two-hop question is checked with them as well.
    connection.execute(
        f"""
        INSERT INTO meant
        SELECT DISTINCT object FROM {literal(old.facts)}
        WHERE kind = 'item' AND object NOT IN (FROM meant) AND (SELECT count(*) FROM claimed_hops) > 0
          AND (subject IN (SELECT subject FROM claimed_edits)
               OR subject IN (SELECT id FROM names JOIN claimed_edits ON name = bare(subject_label)))
        """
    )
    for name, snapshot in (("old", old), ("new", new)):
        connection.execute(
            f"""
            CREATE TABLE {name}_facts AS
            SELECT coalesce(s.target, f.subject) AS subject, property, coalesce(o.target, f.object) AS object,
                   value_type, value, unit, language, precision, calendar
            FROM {literal(snapshot.facts)} f
            LEFT JOIN redirects s ON s.id = f.subject LEFT JOIN redirects o ON o.id = f.object
            WHERE coalesce(s.target, f.subject) IN (FROM meant)
            """
        )
    connection.execute(
        f"""
        CREATE TABLE new_statements AS
        SELECT c.subject, property, coalesce(target, {TERM}) AS object, c.object AS item, snak, rank, restricted,
               qualifier_properties, start_first, end_precision, end_until,
               {VALUE_TYPE} AS value_type, value, unit, language, precision, calendar
        FROM {literal(new.claims)} c LEFT JOIN redirects ON redirects.id = c.object
        WHERE subject IN (FROM meant)
        """
    )
    add_literals(connection)
    _follow_redirects(connection)
