"""Reads statements whose values are described elsewhere in the dump, after all blocks are parsed.

RDF dumps describe a value node (a date with its precision, a quantity with its unit) where it first occurs, and only
sometimes again. A statement that refers to such a node waits until the nodes of all blocks are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.store.engine import literal, open_engine
from kgedit.store.schemas import Loader

MISSING_VALUE = "value described nowhere"
"""Reason for finally leaving a statement out. Counts as bad."""

_STATEMENTS_AT_ONCE = 20_000


def read_late_values(parts: Path, blocks: int, make_loader: Callable[[], Loader], *, spill: Path) -> Counter[str]:
    """Write ``late-NNNNNN.parquet`` with the claims of each block that waited for values. Returns their counts.

    Args:
        parts: Folder of part files.
        blocks: Number of blocks.
        make_loader: Creates the loader that parsed the blocks.
        spill: Spill folder.
    """
    numbers = [number for number in range(blocks) if (parts / f"waiting-{number:06d}.parquet").is_file()]
    counts: Counter[str] = Counter()
    if not numbers:
        return counts
    loader = make_loader()
    with open_engine(spill) as connection:
        _find_nodes(connection, parts, numbers)
        for number in numbers:
            claims = _read_block(connection, loader, parts / f"waiting-{number:06d}.parquet", counts)
            if claims:
                pq.write_table(pa.concat_tables(claims), parts / f"late-{number:06d}.parquet", compression="zstd")
    return counts


def _find_nodes(connection: duckdb.DuckDBPyConnection, parts: Path, numbers: list[int]) -> None:
    waiting, nodes = (
        f"read_parquet([{', '.join(literal(parts / f'{name}-{number:06d}.parquet') for number in numbers)}])"
        for name in ("waiting", "nodes")
    )
    connection.execute(
        f"CREATE TEMP TABLE node AS WITH needed AS (SELECT DISTINCT unnest(nodes) AS node FROM {waiting}) "
        f"SELECT node, min(text) AS text FROM {nodes} SEMI JOIN needed USING (node) GROUP BY node"
    )


def _read_block(
    connection: duckdb.DuckDBPyConnection, loader: Loader, waiting: Path, counts: Counter[str]
) -> list[pa.Table]:
    found = connection.sql(
        f"""
        WITH statement AS (
            SELECT file_row_number AS place, text, unnest(nodes) AS node
            FROM read_parquet({literal(waiting)}, file_row_number = true)
        )
        SELECT any_value(s.text) AS statement, list(n.text ORDER BY n.node) FILTER (n.text IS NOT NULL) AS values,
               count(n.text) = count(*) AS complete
        FROM statement s LEFT JOIN node n USING (node) GROUP BY place ORDER BY place
        """
    ).to_arrow_table()
    claims = []
    for batch in found.to_batches(_STATEMENTS_AT_ONCE):
        texts: list[bytes] = []
        for statement, values, complete in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if complete:
                texts += [*values, statement]
            else:
                counts["statements"] += 1
                counts[MISSING_VALUE] += 1
        parsed = loader.parse(b"".join(texts))
        counts.update(parsed.counts)
        claims.append(parsed.claims)
    return claims
