"""What the buckets of a load need of one another: queries over all parts, whose results are kept beside the parts.

An interrupted load, and the tasks of a cluster that share its folder, read the plan instead of repeating the queries.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgedit.store.as_of import LATER_ITEMS, find_later_items
from kgedit.store.bucket_numbers import bucket_of
from kgedit.store.bucket_rows import BLOCK, BUCKET_CLAIMS
from kgedit.store.buckets import DATATYPES, REDIRECTS, Broadcast
from kgedit.store.engine import literal, open_engine
from kgedit.store.files import replace_folder, write_json
from kgedit.store.part_files import PartFiles, may_concern_all
from kgedit.store.redirects import REDIRECT_ROWS, GivenRedirects, make_redirects
from kgedit.store.repetitions import SHARED_IDS
from kgedit.wikidata.ids import INSTANCE_OF, RESTRICTIVE_QUALIFIER, TIME_QUALIFIERS

PLAN = "plan"
"""Folder of the plan, beside that of the parts."""

_MEMORY = "448MB"
"""Memory of the queries on two cores; the rest spills to disk."""


@dataclass(frozen=True, slots=True)
class Target:
    """A snapshot to write.

    Attributes:
        folder: Existing folder to write into.
        date: Day number on which its facts are current.
        redirects: Redirects of a file, in addition to those of the dump (kgedit.store.redirects).
        as_of: Whether it is projected from a dump of a later day (kgedit.store.as_of).
    """

    folder: Path
    date: int
    redirects: GivenRedirects
    as_of: bool = False


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Tables of the whole dump.

    Attributes:
        broadcast: What each bucket needs of the other ones.
        redirects: Redirects of each snapshot (REDIRECTS), by source.
        left_out: Number of rejected redirects of each snapshot, by reason.
        rows: Number of claims, entities and redirects that were parsed.
    """

    broadcast: Broadcast
    redirects: tuple[pa.Table, ...]
    left_out: tuple[dict[str, int], ...]
    rows: int

    def redirects_of(self, target: int, number: int, buckets: int) -> pa.Table:
        """Redirects of a snapshot whose source has a bucket."""
        redirects = self.redirects[target]
        return (
            redirects if buckets == 1 else redirects.filter(pc.equal(bucket_of(redirects["source"], buckets), number))
        )


def plan_join(parts: PartFiles, blocks: int, targets: Sequence[Target], *, datatypes_by_property: bool) -> JoinPlan:
    """Read the plan beside the parts, or make it.

    Args:
        parts: The part files.
        blocks: Number of blocks.
        targets: The snapshots; several only if they are projections.
        datatypes_by_property: Whether a statement without a datatype gets that of its property.
    """
    folder, days = parts.folder.with_name(PLAN), [target.date for target in targets if target.as_of]
    if folder.is_dir():
        return _read(folder)
    with open_engine(folder.with_name("spill"), memory=_MEMORY) as connection:
        whole = WholeDump.of_parts(connection, parts, blocks)
        broadcast = whole.broadcast(
            days, datatypes_by_property=datatypes_by_property, several_buckets=parts.buckets > 1
        )
        redirects = [whole.redirects(target.redirects) for target in targets]
        rows = int(sum(parts.counts(number).sum() for number in range(blocks)))
    plan = JoinPlan(broadcast, tuple(table for table, _ in redirects), tuple(count for _, count in redirects), rows)
    _write(plan, folder)
    return plan


_TABLES = ("datatypes", "shared_ids", "later_items")


def _read(folder: Path) -> JoinPlan:
    content = json.loads((folder / "plan.json").read_bytes())
    tables = {name: pq.ParquetFile(folder / f"{name}.parquet").read() for name in _TABLES}
    return JoinPlan(
        Broadcast(restrictive=tuple(content["restrictive"]), **tables),
        tuple(
            pq.ParquetFile(folder / f"redirects-{place}.parquet").read() for place in range(len(content["left_out"]))
        ),
        tuple(content["left_out"]),
        content["rows"],
    )


def _write(plan: JoinPlan, folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}.aside")
    aside.mkdir(exist_ok=True)
    tables = {name: getattr(plan.broadcast, name) for name in _TABLES}
    tables |= {f"redirects-{place}": table for place, table in enumerate(plan.redirects)}
    for name, table in tables.items():
        pq.write_table(table, aside / f"{name}.parquet", compression="zstd")
    content = {"restrictive": list(plan.broadcast.restrictive), "left_out": list(plan.left_out)}
    write_json(aside / "plan.json", content | {"rows": plan.rows})
    replace_folder(aside, folder)


NORMAL_ID = (
    "(regexp_full_match(subject, '[A-Z][0-9]+') AND lower(left(statement_id, len(subject))) = lower(subject) "
    "AND NOT regexp_matches(substr(statement_id, len(subject) + 1, 1), '^[0-9]?$'))"
)
"""SQL condition: a statement's id begins with its subject's id, so that no statement of another subject with such an id
has the same."""

_SHARED_IDS = f"""
    WITH odd AS (
        SELECT DISTINCT statement_id FROM {{claims}} WHERE NOT {NORMAL_ID}
    ), candidate AS (
        SELECT block, statement_id, subject, property, version FROM {{claims}} SEMI JOIN odd USING (statement_id)
    ), several AS (
        SELECT * FROM candidate SEMI JOIN (
            SELECT hash(statement_id) AS hashed FROM candidate GROUP BY ALL HAVING count(*) > 1
        ) ON hashed = hash(statement_id)
    ), repeated AS (
        SELECT id, min(block) AS first FROM {{entities}}
        WHERE redirect_target IS NULL AND id IN (SELECT subject FROM several) GROUP BY id
    )
    SELECT DISTINCT statement_id, subject, property, version,
           dense_rank() OVER (PARTITION BY statement_id ORDER BY subject, property, version) AS nth
    FROM several LEFT JOIN repeated ON subject = id WHERE id IS NULL OR block = first
    ORDER BY statement_id, nth
"""
"""Ids that several statements have, of which one has an odd id. Statements of later occurrences of an entity are left
out by their bucket. Grouping hashes keeps the many ids that occur once out of memory."""


class WholeDump:
    """Queries over all rows as parsed: the views ``parsed_claims`` and ``parsed_entities``, with ``block``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Use a connection that has the views."""
        self._connection = connection

    @classmethod
    def of_parts(cls, connection: duckdb.DuckDBPyConnection, parts: PartFiles, blocks: int) -> WholeDump:
        """Create the views over what the part files of all blocks have for these queries."""
        for name, kinds in (("claims", ("claims", "late")), ("entities", ("entities",))):
            paths = [path for kind in kinds for n in range(blocks) if (path := parts.broadcast(kind, n)).is_file()]
            read = f"read_parquet([{', '.join(map(literal, paths))}], filename = true)"
            block = "right(filename, 14)[1:6]::INTEGER AS block"
            connection.execute(f"CREATE VIEW found_{name} AS SELECT * EXCLUDE (filename), {block} FROM {read}")
        connection.execute("CREATE VIEW parsed_entities AS FROM found_entities")
        _find_same_ids(connection, parts, blocks)
        connection.execute("CREATE VIEW parsed_claims AS FROM found_claims UNION ALL BY NAME FROM same_id")
        return cls(connection)

    def broadcast(
        self, projected_days: Sequence[int], *, datatypes_by_property: bool, several_buckets: bool
    ) -> Broadcast:
        """Find what buckets need of one another."""
        restrictive = self._table(
            "SELECT DISTINCT subject FROM {claims} "
            f"WHERE property = '{INSTANCE_OF}' AND object = '{RESTRICTIVE_QUALIFIER}' AND rank <> 'deprecated' "
            f"AND subject NOT IN {TIME_QUALIFIERS} ORDER BY subject"
        )
        datatypes = "SELECT id, any_value(datatype) AS datatype FROM {entities} WHERE datatype IS NOT NULL GROUP BY id"
        return Broadcast(
            restrictive=tuple(restrictive["subject"].to_pylist()),
            datatypes=self._table(datatypes).cast(DATATYPES) if datatypes_by_property else DATATYPES.empty_table(),
            shared_ids=self._table(_SHARED_IDS).cast(SHARED_IDS) if several_buckets else SHARED_IDS.empty_table(),
            later_items=find_later_items(self._connection, "parsed_claims", first=min(projected_days))
            if projected_days
            else LATER_ITEMS.empty_table(),
        )

    def redirects(self, given: GivenRedirects) -> tuple[pa.Table, dict[str, int]]:
        """Redirects of a snapshot (REDIRECTS), by source, and the number of rejected ones by reason."""
        left_out = make_redirects(self._connection, "parsed_entities", given)
        return self._table(REDIRECT_ROWS).cast(REDIRECTS), left_out

    def _table(self, query: str) -> pa.Table:
        return self._connection.sql(query.format(claims="parsed_claims", entities="parsed_entities")).to_arrow_table()


_SHARING = ("statement_id", "subject", "property", "version", BLOCK.name)


def _find_same_ids(connection: duckdb.DuckDBPyConnection, parts: PartFiles, blocks: int) -> None:
    """Create the table ``same_id``: statements of several buckets whose id is that of a statement with an odd id.

    The part files' claims for all buckets have only those with odd ids. Few dumps have any.
    """
    odd = connection.sql(f"SELECT DISTINCT statement_id FROM found_claims WHERE NOT {NORMAL_ID}").to_arrow_table()
    columns = pa.schema([BUCKET_CLAIMS.field(name) for name in _SHARING])
    connection.register("no_claim", columns.empty_table())
    connection.execute("CREATE TEMP TABLE same_id AS FROM no_claim")
    if parts.buckets == 1 or not odd.num_rows:
        return
    for number, division in product(range(blocks), range(parts.divisions)):
        claims = parts.read_blocks("claims", [number], division)
        same = claims.filter(pc.is_in(claims["statement_id"], value_set=odd["statement_id"].combine_chunks()))
        if same.num_rows:
            others = same.filter(pa.array(~may_concern_all(same))).select(_SHARING)
            connection.register("other", others)
            connection.execute("INSERT INTO same_id FROM other")
            connection.unregister("other")
