"""Joins part files into the buckets of each snapshot. Several snapshots, as of several days, are written together.

First, a few queries over all parts find what a bucket needs of the other ones (kgedit.store.buckets.Broadcast). Then
the parts are gathered by bucket, and each bucket is finished by itself. Rows keep the dump's order within a bucket:
sorting them by subject would spill as much as the whole dump, and no reader needs it because all of them join by hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.machine import available_memory
from kgedit.progress import Advance
from kgedit.store.as_of import LATER_ITEMS, PLACES, find_later_items
from kgedit.store.buckets import DATATYPES, REDIRECTS, SHARED_IDS, Broadcast, BucketTarget, bucket_of, write_bucket
from kgedit.store.engine import literal, open_engine
from kgedit.store.gathering import Gathered, gather
from kgedit.store.redirects import REDIRECT_ROWS, GivenRedirects, make_redirects
from kgedit.wikidata.ids import INSTANCE_OF, RESTRICTIVE_QUALIFIER, TIME_QUALIFIERS

_MEMORY = "448MB"
"""Memory of the queries over all parts on two cores; the rest spills to disk."""

_MEMORY_PER_BUCKET = 3 << 29
"""Bytes that finishing a bucket takes: its rows, DuckDB's memory, and what is being written."""


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
class Joined:
    """Counts of a snapshot's rows, and of rows left out as repetitions.

    Attributes:
        redirects_left_out: Number of rejected redirects, by reason.
        placements: For projections, number of the dump's statements by placement; they add up to all but repeated ones.
        later_entities: For projections, number of the dump's entities that did not exist yet.
    """

    claims: int
    claims_with_value: int
    facts: int
    entities: int
    redirects: int
    repeated_entities: int
    repeated_statements: int
    statements_of_repeated_entities: int
    redirects_left_out: dict[str, int]
    placements: Counter[str] = field(default_factory=Counter)
    later_entities: int = 0


def join_parts(
    parts: Path,
    blocks: int,
    targets: Sequence[Target],
    *,
    buckets: int = 1,
    workers: int = 1,
    datatypes_by_property: bool = False,
    progress: Advance,
) -> list[Joined]:
    """Write the claims, facts and entities of each snapshot, by bucket (kgedit.store.buckets.write_bucket).

    Args:
        parts: Folder of part files.
        blocks: Number of part files of each kind.
        targets: The snapshots; several only if they are projections.
        buckets: Number of buckets of each snapshot.
        workers: Maximum number of buckets that are finished at once.
        datatypes_by_property: Whether a statement without a datatype gets that of its property.
        progress: Called with the thousandths done and the number of rows joined.
    """
    spill = parts.parent / "spill"
    with open_engine(spill, memory=_MEMORY) as connection:
        whole = _WholeDump(connection, parts, blocks)
        broadcast = whole.broadcast(
            [target.date for target in targets if target.as_of],
            datatypes_by_property=datatypes_by_property,
            several_buckets=buckets > 1,
        )
        redirects = [whole.redirects(target.redirects) for target in targets]
        rows = whole.count("{claims}") + whole.count("{entities} WHERE redirect_target IS NULL")
    gathered = gather(parts, blocks, parts.parent / "gathered", buckets=buckets)
    finished = _Finishing(gathered, targets, [known for known, _ in redirects], broadcast, spill)
    counts = finished.all(min(workers, buckets, max(available_memory() // 2 // _MEMORY_PER_BUCKET, 1)), rows, progress)
    return [_joined(of, left_out) for of, (_, left_out) in zip(counts, redirects, strict=True)]


def _joined(counts: Counter[str], redirects_left_out: dict[str, int]) -> Joined:
    return Joined(
        claims=counts["claims"],
        claims_with_value=counts["claims with value"],
        facts=counts["facts"],
        entities=counts["entities"],
        redirects=counts["redirects"],
        repeated_entities=counts["repeated entities"],
        repeated_statements=counts["repeated statements"],
        statements_of_repeated_entities=counts["statements of repeated entities"],
        redirects_left_out=redirects_left_out,
        placements=Counter({place: counts[place] for place in PLACES if counts[place]}),
        later_entities=counts["later entities"],
    )


@dataclass(frozen=True, slots=True)
class _Finishing:
    """Finishes gathered buckets of some snapshots."""

    gathered: Gathered
    targets: Sequence[Target]
    redirects: Sequence[pa.Table]
    broadcast: Broadcast
    spill: Path

    def all(self, at_once: int, rows: int, progress: Advance) -> list[Counter[str]]:
        """Finish all buckets, some in threads: DuckDB and Arrow release the interpreter's lock."""
        counts: list[Counter[str]] = [Counter() for _ in self.targets]
        done = 0
        with ThreadPoolExecutor(at_once) as pool:
            numbers = range(self.gathered.buckets)
            for of_bucket in pool.map(lambda number: self._one(number, at_once), numbers):
                for sums, more in zip(counts, of_bucket, strict=True):
                    sums.update(more)
                done = sum(counts[0][name] for name in ("claims", "entities"))
                progress(min(1000 * done // max(rows, 1), 1000), done)
        return counts

    def _one(self, number: int, share: int) -> list[Counter[str]]:
        buckets = self.gathered.buckets
        targets = [
            BucketTarget(
                folder=target.folder,
                date=target.date,
                redirects=of_bucket(redirects, number, buckets),
                as_of=target.as_of,
                number=number,
                buckets=buckets,
            )
            for target, redirects in zip(self.targets, self.redirects, strict=True)
        ]
        spill = self.spill / f"bucket-{number:05d}"
        return write_bucket(self.gathered.rows(number), targets, self.broadcast, spill=spill, share=share)


def of_bucket(redirects: pa.Table, number: int, buckets: int) -> pa.Table:
    """Redirects whose source has a bucket."""
    if buckets == 1:
        return redirects
    return redirects.filter(pc.equal(bucket_of(redirects["source"], buckets), number))


_NORMAL_ID = (
    "(regexp_full_match(subject, '[A-Z][0-9]+') AND lower(left(statement_id, len(subject))) = lower(subject) "
    "AND NOT regexp_matches(substr(statement_id, len(subject) + 1, 1), '^[0-9]?$'))"
)
"""SQL condition: a statement's id begins with its subject's id, so that no statement of another subject with such an id
has the same."""

_SHARED_IDS = f"""
    WITH odd AS (
        SELECT DISTINCT statement_id FROM {{claims}} WHERE NOT {_NORMAL_ID}
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


class _WholeDump:
    """Queries over the part files of all blocks."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, parts: Path, blocks: int) -> None:
        self._connection = connection
        numbers = range(blocks)
        late = [path for number in numbers if (path := parts / f"late-{number:06d}.parquet").is_file()]
        files = {
            "claims": [parts / f"claims-{number:06d}.parquet" for number in numbers] + late,
            "entities": [parts / f"entities-{number:06d}.parquet" for number in numbers],
        }
        for name, paths in files.items():
            read = f"read_parquet([{', '.join(map(literal, paths))}], filename = true)"
            block = "right(filename, 14)[1:6]::INTEGER AS block"
            connection.execute(f"CREATE VIEW parsed_{name} AS SELECT * EXCLUDE (filename), {block} FROM {read}")

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

    def count(self, rows: str) -> int:
        """Number of rows."""
        return int(self._table(f"SELECT count(*) AS n FROM {rows}")["n"][0].as_py())

    def _table(self, query: str) -> pa.Table:
        return self._connection.sql(query.format(claims="parsed_claims", entities="parsed_entities")).to_arrow_table()
