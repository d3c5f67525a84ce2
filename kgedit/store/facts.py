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
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgedit.store.compiled import find_compiled_hashes
from kgedit.store.engine import select
from kgedit.store.schemas import FACTS
from kgedit.wikidata.times import DAY

_VALUE_TYPES = ("quantity", "time", "monolingualtext", "globe-coordinate")

VALUE_TYPE = f"CASE WHEN datatype IN {_VALUE_TYPES} THEN datatype ELSE 'string' END"
"""Type of a literal. Wikidata's editors move properties between datatypes of one type, such as string and
external-id, without changing values."""

TERM = f"""CASE WHEN snak <> 'value' THEN NULL ELSE coalesce(object, 'V' || md5(concat_ws(chr(31), {VALUE_TYPE},
    coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''), coalesce(precision, ''), coalesce(calendar, ''))))
    END"""
"""Id of the term of a claim's value: the entity id, or a hash of the literal. NULL without a known value."""

_KINDS = {"Q": "item", "P": "property", "V": "value"}

_WHEN = " ".join(f"WHEN '{letter}' THEN '{kind}'" for letter, kind in _KINDS.items())

KIND = f"CASE {{id}}[1] {_WHEN} ELSE 'other' END"
"""Kind of a term, derived from its id."""

_LITERALS = f"SELECT {TERM} AS term, {VALUE_TYPE} AS value_type FROM literals"

_WRITTEN = ("value", "unit", "language", "precision", "calendar")
"""Columns of a literal's term after its type."""

_LITERAL_COLUMNS = ("snak", "datatype", "object", *_WRITTEN)

_LAST = 2**62
"""Sorts after every day number."""

_CURRENT = f"""
    WITH held AS (
        SELECT *, coalesce(object, snak) AS said FROM contested
    ), not_handed_over AS (
        SELECT * FROM held WHERE NOT (ends_today AND EXISTS (
            FROM held AS other WHERE other.starts_today AND NOT other.ends_today AND other.said <> held.said
                                 AND other.pair = held.pair))
    ), best AS (
        SELECT * FROM not_handed_over WHERE rank = 'preferred' OR pair NOT IN (
            SELECT pair FROM not_handed_over WHERE rank = 'preferred')
    )
    SELECT min(row) AS first_row,
           arg_min(row, (coalesce(-start_first, {_LAST}), coalesce(-point_first, {_LAST}), statement_id)) AS row,
           CASE WHEN count(*) > 1 THEN list(place ORDER BY statement_id) END AS statement_places
    FROM best WHERE object IS NOT NULL GROUP BY pair, object
"""
"""Facts of eligible statements: all of some pairs of subject and property."""


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
    claims = _with_terms(connection, claims)
    pair, eligible, is_value = _pairs(claims), _are_eligible(claims, date), _flags(pc.is_valid(claims["object"]))
    contested = _are_contested(claims, pair, eligible, _are_on(claims, "end", date))[pair]
    settled = np.flatnonzero(eligible & is_value & ~contested)
    judged = _judge(connection, claims, pair, np.flatnonzero(eligible & contested), date)
    first_row, row = (np.concatenate([settled, judged[name].to_numpy()]) for name in ("first_row", "row"))
    order = np.argsort(first_row, kind="stable")
    alone = pa.nulls(len(settled), pa.list_(pa.int64()))
    several = judged["statement_places"].cast(alone.type)
    places = pa.chunked_array([alone, *several.chunks]).combine_chunks().take(order)
    facts = claims.select(_TAKEN).take(row[order]).rename_columns({"place": "statement_place"})
    facts = facts.append_column("kind", _kinds(facts["object"])).append_column("statement_places", places)
    return facts.select(FACTS.names).cast(FACTS)


_TAKEN = ["place", *(name for name in FACTS.names if name not in ("kind", "statement_place", "statement_places"))]
"""Columns of a fact that are those of its statement."""


def _with_terms(connection: duckdb.DuckDBPyConnection, claims: pa.Table) -> pa.Table:
    """Claims with the term of the value as ``object``, and for literals with ``value_type``."""
    is_value = pc.equal(claims["snak"], "value").combine_chunks()
    is_literal = pc.and_(is_value, pc.is_null(claims["object"]).combine_chunks())
    terms, value_types = _literals(connection, claims.select(_LITERAL_COLUMNS).filter(is_literal))
    nothing = pa.nulls(claims.num_rows, pa.string())
    entities = pc.if_else(is_value, claims["object"].combine_chunks(), nothing)
    objects = pc.replace_with_mask(entities, is_literal, terms)
    types = pc.replace_with_mask(nothing, is_literal, value_types)
    place = claims.schema.get_field_index("object")
    return claims.set_column(place, "object", objects).append_column("value_type", types)


def _literals(connection: duckdb.DuckDBPyConnection, claims: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Terms and types of claims whose value is a literal, as in TERM and VALUE_TYPE."""
    compiled = find_compiled_hashes()
    if compiled is None:
        found = select(_LITERALS, connection=connection, literals=claims)
        return found["term"].combine_chunks(), found["value_type"].combine_chunks()
    datatypes = claims["datatype"].combine_chunks()
    types = pc.if_else(pc.is_in(datatypes, value_set=pa.array(_VALUE_TYPES)), datatypes, "string")
    parts = [types, *(claims[name].combine_chunks() for name in _WRITTEN)]
    digits = _HEXADECIMAL[compiled(parts, "")].reshape(-1, 32)
    written = np.concatenate([np.full((len(digits), 1), ord("V"), np.uint8), digits], axis=1)
    offsets = np.arange(0, written.size + 1, 33, dtype=np.int32)
    return pa.StringArray.from_buffers(len(digits), pa.py_buffer(offsets), pa.py_buffer(written)), types


_HEXADECIMAL = np.array([list(b"%02x" % byte) for byte in range(256)], np.uint8)
"""The two digits of each byte."""


def _are_eligible(claims: pa.Table, date: int) -> NDArray[np.bool_]:
    return ~(
        _flags(pc.equal(claims["rank"], "deprecated"))
        | _flags(claims["restricted"])
        | _flags(pc.greater(claims["start_first"], date))
        | _flags(pc.equal(claims["end_precision"], -1))
        | _flags(pc.less_equal(claims["end_until"], date))
    )


def _are_on(claims: pa.Table, name: str, date: int) -> NDArray[np.bool_]:
    """Which claims have a start or an end on a day and not in a longer time."""
    return _flags(pc.equal(claims[f"{name}_first"], date)) & _flags(pc.equal(claims[f"{name}_precision"], DAY))


def _are_contested(
    claims: pa.Table, pair: NDArray[np.int64], eligible: NDArray[np.bool_], ends_today: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which pairs may have other facts than the value of each of their eligible statements.

    Most pairs are not contested: their eligible statements have one rank and different values, and none of them ends on
    the day. To judge all pairs in SQL takes three times as long.
    """
    of_pair = pair[eligible]
    is_preferred = _flags(pc.equal(claims["rank"], "preferred"))[eligible]
    pairs = int(pair.max(initial=-1)) + 1
    statements, preferred = (np.bincount(some, minlength=pairs) for some in (of_pair, of_pair[is_preferred]))
    contested: NDArray[np.bool_] = (preferred > 0) & (preferred < statements)
    contested[of_pair[ends_today[eligible]]] = True
    # Only a pair with several statements can repeat a value, and most have one.
    rows = np.flatnonzero(eligible)[statements[of_pair] > 1]
    objects, of_pair = _numbers(claims["object"].take(rows)), pair[rows]
    of_pair, objects = of_pair[objects >= 0], objects[objects >= 0]
    facts = _numbers(pa.array(of_pair * (objects.max(initial=0) + 1) + objects))
    contested[of_pair[np.bincount(facts)[facts] > 1]] = True
    return contested


def _judge(
    connection: duckdb.DuckDBPyConnection, claims: pa.Table, pair: NDArray[np.int64], rows: NDArray[np.int64], date: int
) -> pa.Table:
    """Facts of contested pairs: row of the first claim, row of the claim with their times, and places of several."""
    contested = claims.select(_JUDGED).take(rows)
    contested = contested.append_column("row", pa.array(rows)).append_column("pair", pa.array(pair[rows]))
    for name in ("start", "end"):
        contested = contested.append_column(f"{name}s_today", pa.array(_are_on(claims, name, date)[rows]))
    return select(_CURRENT, connection=connection, contested=contested)


_JUDGED = ("place", "statement_id", "rank", "snak", "object", "start_first", "point_first")


def _pairs(claims: pa.Table) -> NDArray[np.int64]:
    """Number of the pair of subject and property of each claim.

    Claims of a pair are neighbours, except those that waited for their values, so that numbers are found by run:
    hashing all texts takes four times as long.
    """
    columns = [claims[name].combine_chunks() for name in ("subject", "property")]
    begins = np.ones(claims.num_rows, np.bool_)
    begins[1:] = np.logical_or(*(_flags(pc.not_equal(column[1:], column[:-1])) for column in columns))
    subject, of_property = (_numbers(column.take(np.flatnonzero(begins))) for column in columns)
    of_run = _numbers(pa.array(subject * (of_property.max(initial=0) + 1) + of_property))
    return np.take(of_run, np.cumsum(begins) - 1)


def _numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Number of each value, from 0 in the order in which they occur; -1 for null."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    indices = column.dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1)).astype(np.int64)


def _flags(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether each value is true; null is not."""
    return np.asarray(pc.fill_null(column, False))


def _kinds(objects: pa.ChunkedArray) -> pa.Array:
    """Kind of each term, as in KIND."""
    letters = pc.utf8_slice_codeunits(objects.combine_chunks(), 0, 1)
    number = pc.fill_null(pc.index_in(letters, value_set=pa.array(list(_KINDS))), len(_KINDS))
    return pa.array([*_KINDS.values(), "other"]).take(number)


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
