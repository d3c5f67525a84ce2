"""Classes of facts (new, obsolete, static, ignore, unknown), by the ordered rules of WikiFactDiff (table 4).

The first rule that holds decides. All comparisons are strict and between intervals of days: "2021" is before
1 March 2021 only if all its days are. A rule with an undecidable comparison does not hold.

Which relations have one value at a time is decided by constraints of Wikidata's editors or by the newer snapshot's
statements. The paper uses only constraints (appendix A). They miss relations whose values succeed one another (head
coach, chairperson, position held), and a slice of Wikidata may lack them altogether.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import duckdb
import pyarrow as pa

from kgedit.store.schemas import TIME_FIELDS
from kgedit.store.window import Window
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.engines.functionality import (
    BOUNDS,
    EXCEPTIONS,
    declared_relations,
    measured_relations,
    stated_relations,
)
from kgedit.timesteps.profiles import Behaviour
from kgedit.timesteps.wikifactdiff.difference import VALUE
from kgedit.timesteps.wikifactdiff.workspace import count_by, count_rows
from kgedit.wikidata.ids import DEATHS

Decision = Literal["new", "obsolete", "static", "ignore", "unknown"]

PREDICATES: dict[str, str] = {
    "subject_is_new": "subject IN (FROM new_entity)",
    "object_is_new": "object IN (FROM new_entity)",
    "subject_is_gone": "bool_and(side = 'old') OVER of_subject",
    "is_death": f"property IN {DEATHS}",
    "functional": "is_functional",
    "only_old": "side = 'old'",
    "only_new": "side = 'new'",
    "in_newer": "side <> 'old'",
    "alone": "count(*) OVER of_group = 1",
    "one_of_two": "count(*) OVER of_group = 2",
    "one_for_one": "count(*) OVER of_group = 2 AND count(*) FILTER (side = 'old') OVER of_group = 1 "
    "AND count(*) FILTER (side = 'new') OVER of_group = 1",
    "dated_in_window": "moment_first > $old AND moment_until <= $new",
    "starts_after_its_end": "start_first >= end_until",
    "no_start": "since_precision IS NULL",
    "starts_before_window": "since_until <= $old",
    "starts_in_window": "since_first > $old AND since_until <= $new",
    "starts_after_window": "since_first > $new",
    "point_in_window": "point_first > $old AND point_until <= $new",
    "no_end": "end_precision IS NULL",
    "ends_before_window": "end_until <= $old",
    "ends_in_window": "end_first > $old AND end_until <= $new",
    "ends_after_window": "end_first > $new",
    "ended_before_window_in_older": "old_end_until <= $old",
}
"""Predicates of a fact for rules: name and SQL; null counts as false. $old and $new are the snapshots' day numbers, the
window is between them. ``since`` is the start time, or else the point in time (section 4.1)."""


@dataclass(frozen=True, slots=True)
class ClassRule:
    """One rule.

    Attributes:
        number: Number in the paper's order, as counted in kgedit's design.
        meaning: Description.
        condition: PREDICATES joined by AND, OR and NOT.
        decision: Class of the facts for which it holds.
    """

    number: str
    meaning: str
    condition: str
    decision: Decision


_COMMON = (
    ClassRule("1", "the subject is a new entity", "subject_is_new", "new"),
    ClassRule("2", "the newer snapshot has no fact of the subject", "subject_is_gone", "unknown"),
    ClassRule(
        "3", "a death in the window, the only one said", "is_death AND only_new AND alone AND dated_in_window", "new"
    ),
    ClassRule("3", "any other death", "is_death", "unknown"),
    ClassRule("4", "it starts after its end", "starts_after_its_end", "unknown"),
)

RULES: tuple[ClassRule, ...] = (
    *_COMMON,
    ClassRule(
        "5-6",
        "of a temporal functional relation one value gave way to one that starts in the window and lasts",
        "functional AND one_for_one AND only_new AND starts_in_window AND (no_end OR ends_after_window)",
        "new",
    ),
    ClassRule(
        "7",
        "added, starts in the window and lasts",
        "only_new AND starts_in_window AND (no_end OR ends_after_window)",
        "new",
    ),
    ClassRule("8", "it ended before the window", "ends_before_window", "ignore"),
    ClassRule("8", "it started before the window and lasts", "in_newer AND no_end AND starts_before_window", "static"),
    ClassRule("8", "it starts in the window and lasts", "in_newer AND no_end AND starts_in_window", "new"),
    ClassRule("9", "it starts after the window", "starts_after_window", "ignore"),
    ClassRule("10", "it starts and ends in the window", "starts_in_window AND ends_in_window", "ignore"),
    ClassRule(
        "10", "it started before the window and ends in it", "starts_before_window AND ends_in_window", "obsolete"
    ),
    ClassRule(
        "10",
        "it started before the window and ends after it",
        "in_newer AND starts_before_window AND ends_after_window",
        "static",
    ),
    ClassRule("10", "it ends in the window, its start is not said", "no_start AND ends_in_window", "obsolete"),
    ClassRule(
        "10", "it ends after the window, its start is not said", "in_newer AND no_start AND ends_after_window", "static"
    ),
    ClassRule("11", "added, and its object is a new entity", "only_new AND object_is_new", "new"),
)
"""The paper's rules, with its descriptions of the classes as conditions: facts that the newer snapshot lacks are
neither new nor static, and facts that start and end in the window are not new."""

RULES_RELEASED_2024: tuple[ClassRule, ...] = (
    *_COMMON,
    ClassRule(
        "5",
        "single-valued, one for one, dated in the window",
        "functional AND one_for_one AND only_new AND point_in_window",
        "new",
    ),
    ClassRule(
        "6",
        "single-valued, one for one, starts in the window and lasts",
        "functional AND one_for_one AND only_new AND starts_in_window AND (no_end OR ends_after_window)",
        "new",
    ),
    ClassRule("6", "any other of a single-valued relation", "functional", "unknown"),
    ClassRule("7", "added, dated in the window", "only_new AND point_in_window", "new"),
    ClassRule("8", "it ended before the window", "ends_before_window", "ignore"),
    ClassRule("8", "it started before the window and lasts", "no_end AND starts_before_window", "static"),
    ClassRule("8", "it starts in the window and lasts", "no_end AND starts_in_window", "new"),
    ClassRule("9", "it starts after the window", "starts_after_window", "ignore"),
    ClassRule("10", "it starts and ends in the window", "starts_in_window AND ends_in_window", "ignore"),
    ClassRule(
        "10", "it started before the window and ends in it", "starts_before_window AND ends_in_window", "obsolete"
    ),
    ClassRule(
        "10", "it began before the window and ends after it", "starts_before_window AND ends_after_window", "static"
    ),
    ClassRule("10", "it ends in the window", "ends_in_window", "obsolete"),
    ClassRule("10", "it ends after the window", "ends_after_window", "static"),
    ClassRule("11", "removed, and had ended before the window", "only_old AND ended_before_window_in_older", "ignore"),
    ClassRule("11", "added, and its object is a new entity", "only_new AND object_is_new", "new"),
)
"""Order of the released code, which tests only for single values of single-valued relations."""

NO_RULE = "no rule holds"
SECOND_PASS = "second pass: the value that a new one of a temporal functional relation replaced"


def rules_of(behaviour: Behaviour) -> tuple[ClassRule, ...]:
    """The rules in order."""
    return RULES_RELEASED_2024 if behaviour.functional_relations_by_first_rules_only else RULES


def classify(
    workspace: duckdb.DuckDBPyConnection, behaviour: Behaviour, *, old: int, new: int
) -> dict[str, dict[str, int]]:
    """Create ``classified``: the facts with ``decision``, ``rule`` (the meaning of the deciding rule) and times.

    Args:
        workspace: Workspace with the tables fact, new_entity, functional and moment.
        behaviour: Behaviour of the released code, or the paper's.
        old: Day number of the older snapshot.
        new: Day number of the newer snapshot.

    Returns:
        Number of facts by decision, and by rule, including the second pass.
    """
    released = behaviour.functional_relations_by_first_rules_only
    rules = rules_of(behaviour)
    predicates = ", ".join(f"coalesce({sql}, false) AS {name}" for name, sql in PREDICATES.items())
    numbered = " ".join(f"WHEN {rule.condition} THEN {place}" for place, rule in enumerate(rules, start=1))
    workspace.register("rule_rows", _rule_table(rules))
    workspace.execute(
        f"""
        CREATE TABLE classified AS
        WITH timed AS (
            SELECT f.*, f.property IN (SELECT property FROM functional {"" if released else "WHERE temporal"})
                        AS is_functional, {_times_asked(released)}, m.first AS moment_first, m.until AS moment_until
            FROM fact f LEFT JOIN moment m
                ON f.value_type = 'time' AND m.value = f.value AND m.precision = f.precision
        ), since AS (
            SELECT *, {_since(released)} FROM timed
        ), judged AS (
            SELECT *, {predicates} FROM since
            WINDOW of_subject AS (PARTITION BY subject), of_group AS (PARTITION BY subject, property)
        ), placed AS (
            SELECT *, CASE {numbered} ELSE 0 END AS place FROM judged
        ), first_pass AS (
            SELECT * FROM placed JOIN rule_rows USING (place)
        ), second_pass AS (
            SELECT *, functional AND one_of_two AND only_old {"AND decision = 'unknown'" if released else ""}
                      AND bool_or(decision = 'new') OVER (PARTITION BY subject, property) AS replaced FROM first_pass
        )
        SELECT subject, property, {", ".join(VALUE)}, side, refined, subject_is_new, functional, start_time, end_time,
               point_time, old_statement_id, new_statement_id,
               CASE WHEN replaced THEN 'obsolete' ELSE decision END AS decision,
               CASE WHEN replaced THEN '{SECOND_PASS}' ELSE rule END AS rule,
               CASE WHEN replaced THEN {len(rules) + 1} ELSE place END AS place,
               side <> 'both' OR refined OR {_differ()} AS differs
        FROM second_pass
        """,
        {"old": old, "new": new},
    )
    workspace.unregister("rule_rows")
    return {
        "decisions": count_by(workspace, "decision", "classified"),
        "rules": count_by(workspace, "rule", "classified"),
    }


def _rule_table(rules: tuple[ClassRule, ...]) -> pa.Table:
    named = [f"{rule.number}: {rule.meaning}" for rule in rules]
    return pa.table(
        {
            "place": pa.array(range(len(rules) + 1), pa.int64()),
            "rule": [NO_RULE, *named],
            "decision": ["unknown", *(rule.decision for rule in rules)],
        }
    )


_PARTS = ("time", "precision", "first", "until")


def _times_asked(released: bool) -> str:
    """SQL of start, end and point in the newest snapshot with the fact; the released code reads only the newer one."""
    newest = "new_{0}" if released else "CASE WHEN side = 'old' THEN old_{0} ELSE new_{0} END"
    names = [f"{field}_{part}" for field in TIME_FIELDS for part in _PARTS]
    return ", ".join(f"{newest.format(name)} AS {name}" for name in names)


def _since(released: bool) -> str:
    point = "false" if released else "start_precision IS NULL"
    return ", ".join(f"CASE WHEN {point} THEN point_{part} ELSE start_{part} END AS since_{part}" for part in _PARTS)


def _differ() -> str:
    """SQL: whether the time qualifiers differ between the snapshots."""
    parts = [f"{field}_{part}" for field in TIME_FIELDS for part in ("time", "precision")]
    return " OR ".join(f"old_{part} IS DISTINCT FROM new_{part}" for part in parts)


def find_functional(engine: Engine, window: Window, by: str) -> None:
    """Create ``functional`` (property, temporal, by_point, exceptions) of single-valued relations, in the window.

    ``temporal`` is the paper's temporal functional. ``by_point`` (a constraint has point in time as separator) and
    ``exceptions`` (a constraint names some) are false if the data decide.

    Args:
        engine: Counts values, or finds constraints.
        window: Both snapshots.
        by: "constraints" or "data".
    """
    if by == "constraints":
        window.run(_DECLARED, answer=engine.functional_by_constraint(window))
        return
    properties = window.select("SELECT DISTINCT property FROM new_facts")
    window.run(
        _MEASURED.format(verdicts=measured_relations("answer", stated_relations(window))),
        answer=engine.functional_by_data(window, properties, min_subjects=BOUNDS.subjects),
    )


def count_functional(workspace: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """Count verdicts of the relations with a fact to classify in either snapshot.

    Returns:
        Numbers of relations: all, temporal functional ones, single-valued ones; and of the temporal ones with
        constraints that have exceptions, which the store does not keep.
    """
    temporal = "property IN (SELECT property FROM fact) AND temporal"
    return {
        "relations": count_rows(workspace, "(SELECT DISTINCT property FROM fact)"),
        "temporal functional": count_rows(workspace, f"functional WHERE {temporal}"),
        "single-valued": count_rows(
            workspace, "functional WHERE property IN (SELECT property FROM fact) AND NOT temporal"
        ),
        "temporal functional with exceptions": count_rows(workspace, f"functional WHERE {temporal} AND exceptions"),
    }


_DECLARED = f"""
    CREATE TABLE functional AS
    SELECT property, temporal, by_point, property IN (
        {EXCEPTIONS} UNION
        {EXCEPTIONS.replace("new_claims", "old_claims")} AND subject NOT IN (SELECT id FROM new_entities)
    ) AS exceptions
    FROM ({declared_relations("answer")})
"""

_MEASURED = """
    CREATE TABLE functional AS
    SELECT property, measured = 'temporal' AS temporal, false AS by_point, false AS exceptions
    FROM ({verdicts}) WHERE measured <> 'several'
"""
