"""Comparable statements of both snapshots, and the facts that only one has, or both (WikiFactDiff, section 4.1).

Only facts about the world are compared. A statement is dropped for the first reason that holds, and drops are counted.
Statements dropped on one side because of their property, their classes or their article are dropped on the other side
too.

Facts are compared by value; qualifiers do not count, but both sides' are kept. If one snapshot has a value twice (a
second term of office), statements are paired by similarity, most similar first.

An entity is new (section 4.2) if the older snapshot lacks it entirely, before any filtering, and its earliest date of
creation is in (older, newer]. A date that may be on either side of a bound makes no entity new.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable

import duckdb

from kgedit.store.engine import literal
from kgedit.store.facts import VALUE_TYPE
from kgedit.store.schemas import TIME_FIELDS
from kgedit.store.window import Window
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.profiles import Behaviour
from kgedit.timesteps.wikifactdiff.values import CANONICAL_VALUE, prepare_moments
from kgedit.timesteps.wikifactdiff.workspace import SIDES, count_by, count_rows
from kgedit.wikidata.ids import CREATION_DATES, TIME_QUALIFIERS
from kgedit.wikidata.times import day_number

KEPT_DATATYPES = ("wikibase-item", "quantity", "time", "monolingualtext", "string")
"""Datatypes whose values can be written as text; urls, external ids, media, coordinates and all others are dropped."""

REASONS: tuple[tuple[str, str], ...] = (
    ("deprecated", "rank = 'deprecated'"),
    ("no value", "snak = 'novalue'"),
    ("unknown value", "snak = 'somevalue'"),
    ("value that words do not tell: url, external id, media, coordinate or the like", "NOT tellable"),
    ("relation about Wikimedia's own pages", "property IN (FROM meta)"),
    ("restrictive qualifier", "restricted"),
    ("subject without an article", "NOT subject_has_article"),
    ("subject is a list, category, template or disambiguation page", "subject IN (FROM page)"),
    ("object without an article", "object IS NOT NULL AND NOT object_has_article"),
    ("object is a list, category, template or disambiguation page", "object IS NOT NULL AND object IN (FROM page)"),
)
"""Reason and condition, in order."""

LATER_POINT = "temporal functional: another statement has the latest point in time"
PREFERRED = "temporal functional: another statement is the preferred one"

_OBJECT_REASONS = ("object without an article", "object is a list, category, template or disambiguation page")


def find_changed(engine: Engine, window: Window) -> dict[str, int]:
    """Create ``touched`` (id): items with a changed statement. All statements of other items are in both snapshots.

    Args:
        engine: Finds changed statements.
        window: From open_workspace.

    Returns:
        Number of subjects and properties with a changed statement, and number of subjects.
    """
    changed = engine.changed_statements(window)
    window.run("CREATE TABLE touched AS SELECT DISTINCT subject AS id FROM changed", changed=changed)
    return {"subjects and properties": changed.num_rows, "subjects": count_rows(window.connection, "touched")}


def preprocess(
    workspace: duckdb.DuckDBPyConnection, behaviour: Behaviour, *, old: int, new: int
) -> dict[str, dict[str, object]]:
    """Create ``old_kept`` and ``new_kept``: statements of touched items that are facts, with their ``term``.

    Args:
        workspace: Workspace after find_changed; items with a date in the window are added to its table ``touched``.
        behaviour: Behaviour of the released code, or the paper's.
        old: Day number of the older snapshot.
        new: Day number of the newer snapshot.

    Returns:
        For each side: statements read, dropped by reason, and kept.
    """
    workspace.execute(_DATED.format(times=_times(behaviour)), {"old": old, "new": new})
    for side in SIDES:
        workspace.execute(_READ.format(side=side, times=_times(behaviour)))
    prepare_moments(workspace)
    let_through = _let_through(workspace) if behaviour.stops_at_unseen_qualifier else {}
    funnel: dict[str, dict[str, object]] = {}
    for side in SIDES:
        workspace.execute(_judge(side, behaviour), {"let_through": let_through.get(side, [])})
        found = count_by(workspace, "reason", f"{side}_judged")
        reasons = [reason for reason, _ in REASONS] + [LATER_POINT, PREFERRED]
        keep = f"CREATE TABLE {side}_kept AS SELECT * EXCLUDE (reason) FROM {side}_judged WHERE reason IS NULL"
        workspace.execute(keep)
        funnel[side] = {
            "read": count_rows(workspace, f"{side}_judged"),
            "dropped": {reason: found.get(reason, 0) for reason in reasons},
            "kept": count_rows(workspace, f"{side}_kept"),
        }
        workspace.execute(f"DROP TABLE {side}_judged; DROP TABLE {side}_read")
    return funnel


_DATED = """
    INSERT INTO touched
    SELECT DISTINCT subject
    FROM (SELECT subject, {times} FROM new_claims c WHERE rank <> 'deprecated' AND subject[1] = 'Q')
    WHERE subject NOT IN (FROM touched) AND (
        start_first > $old AND start_until <= $new OR end_first > $old AND end_until <= $new
        OR start_precision IS NULL AND point_first > $old AND point_until <= $new)
"""
"""Items whose statements did not change, with a date in the window: entered before the older snapshot, with a start,
end or point in time after it."""

_READ = f"""
    CREATE TABLE {{side}}_read AS
    SELECT c.statement_id, coalesce(s.target, c.subject) AS subject, c.property, c.rank, c.snak, c.place,
           coalesce(o.target, c.object) AS object, {VALUE_TYPE} AS value_type,
           {CANONICAL_VALUE} AS value, c.unit, c.language, c.precision, c.calendar, c.datatype, {{times}},
           c.qualifier_properties
    FROM {{side}}_claims c LEFT JOIN redirect s ON s.id = c.subject LEFT JOIN redirect o ON o.id = c.object
    WHERE coalesce(s.target, c.subject) IN (FROM touched)
"""
"""Merged items are replaced by the items they were merged into, both as subject and as object."""


def _times(behaviour: Behaviour) -> str:
    names = [f"{field}_{part}" for field in TIME_FIELDS for part in ("time", "precision", "first", "until")]
    if not behaviour.first_day_of_coarse_dates:
        return ", ".join(f"c.{name}" for name in names)
    as_day = (
        "c.{0}_time, CASE WHEN c.{0}_first IS NOT NULL THEN 11 END AS {0}_precision, c.{0}_first, "
        "c.{0}_first + 1 AS {0}_until"
    )
    return ", ".join(as_day.format(field) for field in TIME_FIELDS)


def _judge(side: str, behaviour: Behaviour) -> str:
    checked = [
        (reason, condition)
        for reason, condition in REASONS
        if not (behaviour.objects_unchecked and reason in _OBJECT_REASONS)
    ]
    reasons = " ".join(f"WHEN {condition} THEN {literal(reason)}" for reason, condition in checked)
    latest, preferred = ("f.by_point", "true") if behaviour.functional_by_point_in_time_only else ("f.temporal",) * 2
    return f"""
        CREATE TABLE {side}_judged AS
        WITH article AS (
            SELECT id FROM known WHERE wiki_title IS NOT NULL
        ), described AS (
            SELECT r.* EXCLUDE (qualifier_properties, datatype),
                   coalesce(p.datatype, r.datatype, r.value_type) IN {KEPT_DATATYPES} AS tellable,
                   list_has_any(r.qualifier_properties, (SELECT coalesce(list(id), []) FROM restrictive))
                       AND NOT list_contains($let_through::BIGINT[], r.place) AS restricted,
                   r.subject IN (FROM article) AS subject_has_article,
                   r.object IN (FROM article) AS object_has_article
            FROM {side}_read r LEFT JOIN (SELECT id, datatype FROM known WHERE kind = 'property') p ON p.id = r.property
        ), reasoned AS (
            SELECT *, CASE {reasons} END AS reason FROM described
        ), ranked AS (
            SELECT r.*, f.property IS NOT NULL AND {latest} AS keeps_latest,
                   f.property IS NOT NULL AND {preferred} AS keeps_preferred,
                   bool_or(point_first IS NOT NULL) OVER own AS has_point,
                   count(*) FILTER (rank = 'preferred') OVER own AS preferred_ones,
                   row_number() OVER (
                       PARTITION BY r.subject, r.property, reason IS NULL
                       ORDER BY point_first DESC NULLS LAST, rank = 'preferred' DESC, statement_id) AS nth
            FROM reasoned r LEFT JOIN functional f ON f.property = r.property
            WINDOW own AS (PARTITION BY r.subject, r.property, reason IS NULL)
        )
        SELECT place, statement_id, subject, property, rank, object, value_type, value, unit, language, precision,
               calendar, COLUMNS('^(start|end|point)_'), {_TERM} AS term,
               CASE WHEN reason IS NOT NULL THEN reason
                    WHEN keeps_latest AND has_point AND nth > 1 THEN '{LATER_POINT}'
                    WHEN keeps_preferred AND NOT (keeps_latest AND has_point) AND preferred_ones = 1
                         AND rank <> 'preferred' THEN '{PREFERRED}' END AS reason
        FROM ranked
    """


_TERM = """coalesce(object, 'V' || md5(concat_ws(chr(31), value_type, coalesce(value, ''), coalesce(unit, ''),
           coalesce(language, ''), coalesce(precision, ''), coalesce(calendar, ''))))"""
"""The value in canonical form, without bounds."""


def _let_through(workspace: duckdb.DuckDBPyConnection) -> dict[str, list[int]]:
    """Indexes of statements that a restrictive qualifier should have dropped, by side, as in the released code.

    The code remembers the qualifiers it has seen. If one is seen for the first time, it checks whether it is
    restrictive, and skips the remaining qualifiers of that statement. The store keeps qualifiers in the order of their
    ids, so this is the order used. Of a pattern of n qualifiers only the first n statements can have one seen for the
    first time.
    """
    restrictive = {row[0] for row in workspace.execute("FROM restrictive").fetchall()}
    found = {}
    for side in SIDES:
        firsts = workspace.execute(
            f"""
            SELECT place, qualifier_properties FROM {side}_read
            WHERE len(qualifier_properties) > 0 AND snak = 'value' AND property NOT IN (FROM meta)
            QUALIFY row_number() OVER (PARTITION BY qualifier_properties ORDER BY place) <= len(qualifier_properties)
            ORDER BY place
            """
        ).fetchall()
        found[side] = list(_missed(firsts, restrictive))
    return found


def _missed(statements: Iterable[tuple[int, list[str]]], restrictive: set[str]) -> Iterable[int]:
    seen: dict[str, bool] = defaultdict(bool, dict.fromkeys(TIME_QUALIFIERS, True))
    seen["P447"] = True
    for place, qualifiers in statements:
        for name in qualifiers:
            if not seen[name]:
                seen[name] = True
                if name not in restrictive and not restrictive.isdisjoint(qualifiers):
                    yield place
                break
            if name in restrictive:
                break


VALUE = ("object", "value_type", "value", "unit", "language", "precision", "calendar", "term")
"""Columns of a fact's value: an entity, or a literal; and the id of either."""

_TIMES = [f"{field}_{part}" for field in TIME_FIELDS for part in ("time", "precision", "first", "until")]

_LIKENESS: tuple[tuple[str, ...], ...] = (
    ("term", "statement_id"),
    ("term", "start_time", "end_time", "point_time"),
    ("term", "start_time"),
    ("term", "end_time"),
    ("term",),
)
"""Columns in which two statements of a subject and property must agree to be one fact, strictest first."""


def compare(workspace: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Create ``fact``: one row for each fact of old_kept and new_kept.

    Columns: subject, property, term, the value as the newest snapshot writes it, ``side`` (old, new or both),
    ``refined`` (a date that only became more or less precise), the statement and times of either side
    (old_..., new_...).

    Returns:
        Number of facts in the older snapshot only, in the newer only, in both, and how many of these were refined.
    """
    for side in ("old", "new"):
        workspace.execute(
            f"CREATE TABLE {side}_left AS SELECT row_number() OVER (ORDER BY subject, property, term, statement_id) "
            f"AS number, * FROM {side}_kept"
        )
    workspace.execute("CREATE TABLE pair (old_number BIGINT, new_number BIGINT, refined BOOLEAN)")
    for columns in _LIKENESS:
        _pair(workspace, " AND ".join(f"o.{name} IS NOT DISTINCT FROM n.{name}" for name in columns), columns)
    _pair_refined(workspace)
    workspace.execute(_FACTS)
    return {
        "only in the older": count_rows(workspace, "fact WHERE side = 'old'"),
        "only in the newer": count_rows(workspace, "fact WHERE side = 'new'"),
        "in both": count_rows(workspace, "fact WHERE side = 'both'"),
        "in both, date refined": count_rows(workspace, "fact WHERE refined"),
    }


def _pair(workspace: duckdb.DuckDBPyConnection, alike: str, columns: tuple[str, ...]) -> None:
    own = ", ".join(("subject", "property", *columns))
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY {own} ORDER BY number) AS nth FROM {{0}}_left "
        "WHERE number NOT IN (SELECT {0}_number FROM pair)"
    )
    workspace.execute(
        f"""
        INSERT INTO pair
        WITH o AS ({numbered.format("old")}), n AS ({numbered.format("new")})
        SELECT o.number, n.number, false
        FROM o JOIN n ON o.subject = n.subject AND o.property = n.property AND o.nth = n.nth AND {alike}
        """
    )


def _pair_refined(workspace: duckdb.DuckDBPyConnection) -> None:
    """Pair dates of one calendar if one contains the other: 2021 and 12 March 2021 are not a change."""
    workspace.execute(
        """
        INSERT INTO pair
        WITH o AS (SELECT l.*, m.first, m.until FROM old_left l JOIN moment m USING (value, precision)
                   WHERE value_type = 'time' AND number NOT IN (SELECT old_number FROM pair)),
             n AS (SELECT l.*, m.first, m.until FROM new_left l JOIN moment m USING (value, precision)
                   WHERE value_type = 'time' AND number NOT IN (SELECT new_number FROM pair)),
        candidate AS (
            SELECT o.number AS old_number, n.number AS new_number FROM o JOIN n USING (subject, property)
            WHERE o.calendar IS NOT DISTINCT FROM n.calendar AND o.precision <> n.precision
              AND ((o.first <= n.first AND n.until <= o.until) OR (n.first <= o.first AND o.until <= n.until))
        )
        SELECT old_number, new_number, true FROM candidate
        QUALIFY row_number() OVER (PARTITION BY old_number ORDER BY new_number) = 1
            AND row_number() OVER (PARTITION BY new_number ORDER BY old_number) = 1
        """
    )


def _sided(side: str) -> str:
    own = ", ".join(f"{side[0]}.{name} AS {side}_{name}" for name in _TIMES)
    return f"{side[0]}.statement_id AS {side}_statement_id, {own}"


_FACTS = f"""
    CREATE TABLE fact AS
    SELECT coalesce(n.subject, o.subject) AS subject, coalesce(n.property, o.property) AS property,
           {", ".join(f"CASE WHEN n.number IS NULL THEN o.{name} ELSE n.{name} END AS {name}" for name in VALUE)},
           CASE WHEN o.number IS NULL THEN 'new' WHEN n.number IS NULL THEN 'old' ELSE 'both' END AS side,
           coalesce(refined, false) AS refined, {_sided("old")}, {_sided("new")}
    FROM old_left o LEFT JOIN pair ON pair.old_number = o.number
    FULL JOIN new_left n ON n.number = pair.new_number
"""


def find_new_entities(
    workspace: duckdb.DuckDBPyConnection,
    behaviour: Behaviour,
    *,
    old: int,
    new: int,
    older_is_slice: bool = False,
) -> dict[str, int]:
    """Create ``new_entity`` (id) and ``created_entities``, with their dates of creation, from new_kept.

    Args:
        workspace: Workspace with known, old_kept, new_kept and moment.
        behaviour: Behaviour of the released code, or the paper's.
        old: Day number of the older snapshot.
        new: Day number of the newer snapshot.
        older_is_slice: Whether the older snapshot contains only chosen items. Items that it lacks may be old, so
            nothing is new, and facts of subjects that only the newer snapshot has are removed from new_kept.

    Returns:
        Number of items that only the newer snapshot has and that have statements left, by their dates of creation.
    """
    workspace.execute(_ABSENT_FROM_FILTERED if behaviour.entities_by_filtered_part else _ABSENT)
    order = "property_place, publication, place" if behaviour.entities_by_filtered_part else "first, until"
    # Of dates on the same day, the relation that comes first in the paper's list.
    order += f", list_position({list(CREATION_DATES)}, property), created"
    workspace.execute(
        f"""
        CREATE TABLE absent_entity AS
        WITH dated AS (
            SELECT k.subject AS id, k.property, k.value AS created, m.first, m.until, k.place,
                   min(k.place) OVER (PARTITION BY k.subject, k.property) AS property_place,
                   CASE WHEN k.property = 'P577' THEN m.first END AS publication
            FROM new_kept k JOIN moment m USING (value, precision)
            WHERE k.value_type = 'time' AND k.property IN {CREATION_DATES}
        ), created AS (
            SELECT DISTINCT ON (id) id, first, until, property, created FROM dated ORDER BY id, {order}
        )
        SELECT id, first, until, property, created FROM absent LEFT JOIN created USING (id)
        """
    )
    after = day_number(datetime.date(new // 10000, new // 100 % 100, new % 100) + datetime.timedelta(days=1))
    in_window = "first > $old" if behaviour.entities_by_filtered_part else "first > $old AND until <= $after"
    workspace.execute(
        f"CREATE TABLE new_entity AS SELECT id FROM absent_entity WHERE {in_window} AND $after > 0 AND NOT $slice",
        {"old": old, "after": after, "slice": older_is_slice},
    )
    workspace.execute(_CREATED_ENTITIES)
    absent = count_rows(workspace, "absent_entity")
    if older_is_slice:
        # Values of such an item on the older day are unknown, so none of its current values can be called added.
        workspace.execute("DELETE FROM new_kept WHERE subject IN (SELECT id FROM absent_entity)")
    undated = count_rows(workspace, "absent_entity WHERE first IS NULL")
    found = count_rows(workspace, "new_entity")
    return {
        "only in the newer snapshot": absent,
        "without a date of creation": undated,
        "created at another time, or perhaps": absent - undated - found,
        "new": found,
    }


_CREATED_ENTITIES = """
    CREATE TABLE created_entities AS
    SELECT id, e.label, e.description, created, property, p.label AS property_label
    FROM absent_entity SEMI JOIN new_entity USING (id)
    LEFT JOIN (SELECT id, label, description FROM known) e USING (id)
    LEFT JOIN (SELECT id AS property, label FROM known) p USING (property)
"""

_ABSENT = """
    CREATE TABLE absent AS
    SELECT DISTINCT subject AS id FROM new_kept
    WHERE subject NOT IN (SELECT id FROM old_entities)
      AND subject NOT IN (SELECT target FROM redirect SEMI JOIN old_entities USING (id))
"""
"""An item that an item of the older snapshot was merged into is not new."""

_ABSENT_FROM_FILTERED = (
    "CREATE TABLE absent AS SELECT DISTINCT subject AS id FROM new_kept ANTI JOIN old_kept USING (subject)"
)
