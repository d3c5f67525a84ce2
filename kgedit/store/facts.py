"""Facts: the values that are current on the day of a snapshot. This module is the only place that defines them.

The rule applies to one subject and property. Eligible statements are not deprecated, have no restrictive qualifier,
have begun and have not ended on that day. The facts are the values of the eligible statements with the best rank; if
these are only *no value* or *unknown value*, there is no fact.

If dates do not decide, the statement stays, both in a dump's own snapshot and in projections to the day
(kgedit.store.as_of): on 1 March 2021 a start in "2021" or "2021-03" has come, and an end in them has not. An end at an
unknown time (``somevalue``) has come. One case is decided although both statements hold on the day: an end on the
snapshot's day has come if another value begins on that day, because a handover is one event and the successor holds
the office after it.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.schemas import FACTS
from kgedit.wikidata.times import DAY

VALUE_TYPE = """CASE WHEN datatype IN ('quantity', 'time', 'monolingualtext', 'globe-coordinate')
                     THEN datatype ELSE 'string' END"""
"""Type of a literal. Wikidata's editors move properties between datatypes of one type, such as string and
external-id, without changing values."""

TERM = f"""CASE WHEN snak <> 'value' THEN NULL ELSE coalesce(object, 'V' || md5(concat_ws(chr(31), {VALUE_TYPE},
    coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''), coalesce(precision, ''), coalesce(calendar, ''))))
    END"""
"""Id of the term of a claim's value: the entity id, or a hash of the literal. NULL without a known value."""

KIND = "CASE {id}[1] WHEN 'Q' THEN 'item' WHEN 'P' THEN 'property' WHEN 'V' THEN 'value' ELSE 'other' END"
"""Kind of a term, derived from its id."""

_LAST = 2**62
"""Sorts after every day number."""

_CURRENT = f"""
    WITH held AS (
        SELECT * EXCLUDE (object), {TERM} AS object, coalesce({TERM}, snak) AS said,
               coalesce(end_precision = {DAY} AND end_first = $date, false) AS ends_today,
               coalesce(start_precision = {DAY} AND start_first = $date, false) AS starts_today
        FROM claims
        WHERE rank <> 'deprecated' AND NOT restricted
          AND (start_first IS NULL OR start_first <= $date)
          AND end_precision IS DISTINCT FROM -1 AND (end_until IS NULL OR end_until > $date)
    ), not_handed_over AS (
        SELECT * FROM held WHERE NOT (ends_today AND EXISTS (
            FROM held AS other WHERE other.starts_today AND NOT other.ends_today AND other.said <> held.said
                                 AND other.subject = held.subject AND other.property = held.property))
    ), best AS (
        SELECT * FROM not_handed_over WHERE rank = 'preferred' OR (subject, property) NOT IN (
            SELECT (subject, property) FROM not_handed_over WHERE rank = 'preferred')
    ), fact AS (
        SELECT min(place) AS first_place,
               CASE WHEN count(*) > 1 THEN list(place ORDER BY statement_id) END AS statement_places,
               arg_min(place, (coalesce(-start_first, {_LAST}), coalesce(-point_first, {_LAST}), statement_id)) AS place
        FROM best WHERE snak = 'value' GROUP BY subject, property, object
    )
    SELECT subject, property, object, {KIND.format(id="object")} AS kind, rank, place AS statement_place,
           statement_places,
           {", ".join(name for name in FACTS.names if name.startswith(("start_", "end_", "point_")))},
           CASE WHEN object[1] = 'V' THEN {VALUE_TYPE} END AS value_type, value, unit, language, precision, calendar
    FROM fact JOIN held USING (place) ORDER BY first_place
"""


def current_facts(connection: duckdb.DuckDBPyConnection, claims: pa.Table, date: int) -> pa.Table:
    """Current facts of complete entities, one per subject, property and object, in the order of their claims.

    Args:
        connection: Connection to use; no tables are left in it.
        claims: Rows of a snapshot's claims (kgedit.store.schemas.CLAIMS_KEPT), with all claims of each subject.
        date: Day number of the snapshot.

    Returns:
        A table with the schema FACTS. If several statements have the same object, the times are those of the one that
        began last, and ``statement_places`` lists all of them by id; null for one statement.
    """
    connection.register("claims", claims)
    try:
        facts: pa.Table = connection.sql(_CURRENT, params={"date": date}).to_arrow_table()
    finally:
        connection.unregister("claims")
    return facts.cast(FACTS)


def with_statement_ids(facts: str, claims: str) -> str:
    """SQL of facts with the column ``statement_id``, the id of the statement with their times.

    Only claims contain ids, because a second copy would take a quarter of a snapshot.

    Args:
        facts: SQL relation of facts, or its name.
        claims: SQL relation of claims of the same snapshot, at least those of these facts.
    """
    # By subject too, although places are unique: to join by one number, DuckDB takes a table of all numbers between the
    # least and the greatest of the facts, 120 MB in a full bucket however few facts there are.
    ids = f"SELECT subject, place AS statement_place, statement_id FROM {claims}"
    return f"SELECT f.*, statement_id FROM {facts} f JOIN ({ids}) USING (subject, statement_place)"


def with_places(table: pa.Table) -> pa.Table:
    """Add a column ``place`` with row numbers, because DuckDB's joins do not keep the order."""
    return table.append_column("place", pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)))
