"""Part files to the two files of a snapshot, as a stream: what must be known of the whole dump first fits in memory.

Rows keep the dump's order. Sorting them by subject would cost the whole dump's size in spill files and serve nobody:
the claims of an entity are together anyway, and every reader joins by hash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.errors import SourceError
from kgedit.store.blocks import Progress
from kgedit.store.engine import literal, open_engine
from kgedit.store.schemas import CLAIMS, ENTITIES
from kgedit.wikidata.ids import INSTANCE_OF, RESTRICTIVE_QUALIFIER, TIME_QUALIFIERS

ROW_GROUP_ROWS = 122_880
"""Rows of a row group, cut exactly there: the same input gives the same bytes with any number of threads."""

Wrote = Callable[[int], None]
"""Called with the rows just written."""

_REDIRECT = re.compile(r"([QPL]\d+)\t([QPL]\d+)(?:\t(\d{4})-?(\d\d)-?(\d\d))?")


@dataclass(frozen=True, slots=True)
class Joined:
    """Rows of a snapshot, and rows left out because something occurred twice."""

    claims: int
    claims_with_value: int
    entities: int
    redirects: int
    repeated_entities: int
    repeated_statements: int
    statements_of_repeated_entities: int


def join_parts(parts: Path, blocks: int, whole: Path, *, redirects: dict[str, str], progress: Progress) -> Joined:
    """Write ``claims.parquet`` and ``entities.parquet`` into the folder `whole`.

    Of an entity that occurs twice, the first occurrence stays with its statements; so does the first of equal
    statements. An id that different statements bear stays with one of them; the others get "#2", "#3", ...

    Args:
        parts: Folder of part files.
        blocks: How many of each kind there are.
        whole: Existing folder to write into.
        redirects: From -> to; of ids that the dump holds they are ignored.
        progress: Called with the thousandths done and the rows written.
    """
    connection = open_engine(whole / "spill")
    for name in ("claims", "entities"):
        files = ", ".join(literal(parts / f"{name}-{number:06d}.parquet") for number in range(blocks))
        read = f"read_parquet([{files}], filename = true, file_row_number = true)"
        connection.execute(f"CREATE VIEW all_{name} AS SELECT * FROM {read}")
    claims_read, entities_read = _count(connection, "all_claims"), _count(connection, "all_entities")
    _find_repetitions(connection)
    claims_kept = claims_read - _count(connection, "all_claims JOIN repeated ON subject = id WHERE filename <> place.f")
    total = claims_read + entities_read + 1
    written = 0

    def wrote(rows: int) -> None:
        nonlocal written
        written += rows
        progress(min(1000 * written // total, 1000), written)

    entities = _write_entities(connection, whole / "entities.parquet", redirects, wrote)
    claims, with_value = _write_claims(connection, whole / "claims.parquet", wrote)
    connection.close()
    return Joined(
        claims=claims,
        claims_with_value=with_value,
        entities=entities[0],
        redirects=entities[1],
        repeated_entities=entities_read - entities[0],
        repeated_statements=claims_kept - claims,
        statements_of_repeated_entities=claims_read - claims_kept,
    )


def read_redirects(path: Path, until: int) -> dict[str, str]:
    """Redirects that a tab-separated file (from, to, optionally the first date) knows up to a day number.

    Of several for one id the latest counts, and the last line of those.

    Raises:
        SourceError: naming the first line that is none. Blank lines and a heading may be there.
    """
    latest: dict[str, tuple[int, str]] = {}
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            match = _REDIRECT.fullmatch(line.strip())
            if match is None:
                if number == 1 or not line.strip():
                    continue
                raise SourceError(
                    f"Line {number} of {path} is no redirect: {line.strip()!r}. "
                    "Write: from, tab, to, and if known another tab and the first date (Q1<tab>Q2<tab>2021-03-01)."
                )
            source, target, *day = match.groups()
            first = int("".join(day)) if day[0] else 0
            if first <= until and first >= latest.get(source, (0, ""))[0]:
                latest[source] = (first, target)
    return {source: target for source, (_, target) in latest.items()}


def _count(connection: duckdb.DuckDBPyConnection, rows: str) -> int:
    counted = connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
    return int(counted[0][0])


def _find_repetitions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the two tables of what occurs more than once. Only hashes of the other ids pass through memory."""
    connection.execute(
        """
        CREATE TEMP TABLE repeated AS
        SELECT id, min({f: filename, r: file_row_number}) AS place FROM all_entities
        WHERE hash(id) IN (SELECT hash(id) FROM all_entities GROUP BY ALL HAVING count(*) > 1)
        GROUP BY id HAVING count(*) > 1
        """
    )
    connection.execute(
        """
        CREATE VIEW kept_claims AS SELECT c.* FROM all_claims c LEFT JOIN repeated ON subject = id
        WHERE id IS NULL OR filename = place.f
        """
    )
    connection.execute(
        """
        CREATE TEMP TABLE shared AS
        SELECT filename, file_row_number,
               dense_rank() OVER (PARTITION BY statement_id ORDER BY subject, property, version) AS nth,
               row_number() OVER (PARTITION BY statement_id, version ORDER BY filename, file_row_number) AS copy
        FROM kept_claims
        WHERE hash(statement_id) IN (SELECT hash(statement_id) FROM all_claims GROUP BY ALL HAVING count(*) > 1)
        """
    )


def _write_claims(connection: duckdb.DuckDBPyConnection, path: Path, wrote: Wrote) -> tuple[int, int]:
    """Returns the numbers of claims and of claims with a value."""
    restrictive = connection.execute(
        "SELECT DISTINCT subject FROM all_claims WHERE property = ? AND object = ? AND rank <> 'deprecated'",
        [INSTANCE_OF, RESTRICTIVE_QUALIFIER],
    ).fetchall()
    rows_wanted = connection.sql(
        """
        SELECT c.* EXCLUDE (filename, file_row_number)
                   REPLACE (CASE WHEN nth > 1 THEN statement_id || '#' || nth ELSE statement_id END AS statement_id),
               list_has_any(qualifier_properties, ?::VARCHAR[]) AS restricted
        FROM kept_claims c LEFT JOIN shared USING (filename, file_row_number)
        WHERE copy IS NULL OR copy = 1
        """,
        params=[sorted({row[0] for row in restrictive} - set(TIME_QUALIFIERS))],
    )
    claims = _write(rows_wanted, path, CLAIMS.append(pa.field("restricted", pa.bool_())), wrote)
    return claims, _count(connection, f"{literal(path)} WHERE snak = 'value'")


def _write_entities(
    connection: duckdb.DuckDBPyConnection, path: Path, redirects: dict[str, str], wrote: Wrote
) -> tuple[int, int]:
    """Returns the numbers of entities and of redirects."""
    ids = sorted(redirects)
    given = pa.table({"source": pa.array(ids, pa.string()), "target": [redirects[source] for source in ids]})
    connection.register("given", given)
    rows_wanted = connection.sql(
        """
        SELECT e.* EXCLUDE (filename, file_row_number)
        FROM all_entities e LEFT JOIN repeated USING (id)
        WHERE place IS NULL OR place = {f: filename, r: file_row_number}
        UNION ALL BY NAME
        SELECT source AS id, CASE source[1] WHEN 'P' THEN 'property' ELSE 'item' END AS kind,
               target AS redirect_target
        FROM (SELECT * FROM given ORDER BY source)
        WHERE source NOT IN (SELECT source FROM all_entities JOIN given ON id = source)
        """
    )
    rows = _write(rows_wanted, path, ENTITIES, wrote)
    redirected = _count(connection, f"{literal(path)} WHERE redirect_target IS NOT NULL")
    return rows - redirected, redirected


def _write(select: duckdb.DuckDBPyRelation, path: Path, schema: pa.Schema, wrote: Wrote) -> int:
    """Write a query's result as Parquet, as it comes; returns its rows."""
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in _row_groups(select.to_arrow_reader(ROW_GROUP_ROWS), schema):
            writer.write_table(table, ROW_GROUP_ROWS)
            rows += table.num_rows
            wrote(table.num_rows)
    return rows


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in tables of exactly ROW_GROUP_ROWS, the last one shorter."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(one) for one in waiting) >= ROW_GROUP_ROWS:
            table = pa.Table.from_batches(waiting).cast(schema)
            while table.num_rows >= ROW_GROUP_ROWS:
                yield table.slice(0, ROW_GROUP_ROWS)
                table = table.slice(ROW_GROUP_ROWS)
            waiting = table.to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting).cast(schema)
