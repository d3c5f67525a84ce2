"""Facts: what is current on the day of a snapshot. The rule is written here and nowhere else.

A rule about one subject and property. Of its statements those count that are not deprecated, hold without a
restrictive qualifier, have begun and have not ended on that day, and of these the ones of best rank. Their values are
the facts; a best rank that says *no value* or *unknown value* alone leaves none.

Where the day cannot be decided the statement stays, in a dump's own snapshot and in projections to the day
(kgedit.store.as_of): on 1 March 2021 a start in "2021" or "2021-03" has come, and an end in them has not. An end known
to exist but not when (``somevalue``) has come. One case is decided although both statements hold on the day: an end on
the very day of the snapshot has come if another value begins that day, because a handover is one event and the
successor is who holds the office after it.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.schemas import FACTS
from kgedit.wikidata.times import DAY

VALUE_TYPE = """CASE WHEN datatype IN ('quantity', 'time', 'monolingualtext', 'globe-coordinate')
                     THEN datatype ELSE 'string' END"""
"""The type of a literal. Datatypes of one type, such as string and external-id, are renamed by Wikidata's editors;
the value stays what it was."""

TERM = f"""CASE WHEN snak <> 'value' THEN NULL ELSE coalesce(object, 'V' || md5(concat_ws(chr(31), {VALUE_TYPE},
    coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''), coalesce(precision, ''), coalesce(calendar, ''))))
    END"""
"""Id of the term that a claim's value is: the entity's own id, or a hash of the literal. Null for no known value."""

KIND = "CASE {id}[1] WHEN 'Q' THEN 'item' WHEN 'P' THEN 'property' WHEN 'V' THEN 'value' ELSE 'other' END"
"""Kind of a term, by its id."""

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
        SELECT min(place) AS first_place, list_sort(list(statement_id)) AS statement_ids,
               arg_min(place, (coalesce(-start_first, {_LAST}), coalesce(-point_first, {_LAST}), statement_id)) AS place
        FROM best WHERE snak = 'value' GROUP BY subject, property, object
    )
    SELECT subject, property, object, {KIND.format(id="object")} AS kind, rank, statement_id, statement_ids,
           {", ".join(name for name in FACTS.names if name.startswith(("start_", "end_", "point_")))},
           CASE WHEN object[1] = 'V' THEN {VALUE_TYPE} END AS value_type, value, unit, language, precision, calendar
    FROM fact JOIN held USING (place) ORDER BY first_place
"""  # noqa: S608 - our own names and numbers


def current_facts(connection: duckdb.DuckDBPyConnection, claims: pa.Table, date: int) -> pa.Table:
    """The facts of whole entities, one for each subject, property and object, in the order of their claims.

    Args:
        connection: Does the work; nothing of it is left there.
        claims: Rows of a snapshot's claims (kgedit.store.joining.CLAIMS_KEPT): all claims of each subject in it.
        date: Day number of the snapshot.

    Returns:
        A table with the schema FACTS. Of several statements with one object the times are those of the latest to
        begin; ``statement_ids`` names them all, sorted.
    """
    connection.register("claims", with_places(claims))
    try:
        facts: pa.Table = connection.sql(_CURRENT, params={"date": date}).to_arrow_table()
    finally:
        connection.unregister("claims")
    return facts.cast(FACTS)


def with_places(table: pa.Table) -> pa.Table:
    """The table with a column ``place`` that numbers its rows: DuckDB's joins keep no order."""
    return table.append_column("place", pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)))
