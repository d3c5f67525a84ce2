"""Options of a load, and how its files are built from a dump: in processes of this machine, or on a cluster.

RDF dumps describe a value node (a date with its precision, a quantity with its unit) where it first occurs, and only
sometimes again. A statement that refers to such a node waits until the nodes of all blocks are known, and is read then.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from kgedit import __version__
from kgedit.errors import SourceError
from kgedit.progress import Advance, ignore
from kgedit.store.blocks import parse_blocks
from kgedit.store.bucket_numbers import bucket_count
from kgedit.store.engine import literal, open_engine
from kgedit.store.frames import LAYOUT
from kgedit.store.framing import JSON_LINES, Framing
from kgedit.store.joining import Joined, join_parts
from kgedit.store.part_files import PartFiles
from kgedit.store.planning import Target
from kgedit.store.schemas import Loader
from kgedit.store.snapshots import FORMAT
from kgedit.store.sources import DumpFile

_LINE_BYTES = 16_384
"""Size of an entity of a full dump as JSON, on average."""

CheckCounts = Callable[[Counter[str]], None]
"""Raises SourceError if the counts of what was parsed are those of a bad dump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Options of a load; all except `max_error_rate` are part of the snapshot's identity.

    Attributes:
        date: Day of the dump, or day of the projection.
        loader: Name in the registry of loaders.
        loader_version: Version of the loader.
        make_loader: Creates the loader; must be picklable.
        options: Options of the loader, as recorded in the manifest.
        limit: Maximum number of lines; None means all.
        redirects: Tab-separated file (from, to, and optionally the first date), or None.
        bad_lines: Counts that make a line bad.
        bad_statements: Counts that make a statement bad.
        notes: Counts of harmless peculiarities.
        max_error_rate: Share of bad lines, or of bad statements, above which the load fails.
        framing: Cuts the loader's format into blocks.
        lacks: Short names of what the format lacks.
        datatypes_by_property: Whether a statement without a datatype gets that of its property.
        slice_of: Description of the slice (a query, a list of items) in the dump; None means all of Wikidata. Data
            missing from a slice is unknown, not removed.
        as_of: Whether the dump is of a later day and is projected to `date`.
    """

    date: datetime.date
    loader: str
    loader_version: str
    make_loader: Callable[[], Loader]
    options: dict[str, Any]
    limit: int | None
    redirects: Path | None
    bad_lines: tuple[str, ...]
    bad_statements: tuple[str, ...]
    max_error_rate: float
    notes: tuple[str, ...] = ()
    framing: Framing = JSON_LINES
    lacks: tuple[str, ...] = ()
    datatypes_by_property: bool = False
    slice_of: str | None = None
    as_of: bool = False

    def identity(self, source: DumpFile) -> dict[str, Any]:
        """Values by which a snapshot is known to be of this load."""
        return {
            "kgedit": __version__,
            "format": FORMAT,
            "date": str(self.date),
            "source": {"name": source.path.name, "size": source.size},
            "loader": {"name": self.loader, "version": self.loader_version, **self.options},
            "limit": self.limit,
            "redirects": _named(self.redirects) if self.redirects else None,
            "block_bytes": source.block_bytes,
            "slice_of": self.slice_of,
            "lacks": list(self.lacks),
        }

    def unfinished(self, source: DumpFile) -> dict[str, Any]:
        """Values that must agree for an interrupted load to be resumed."""
        return self.identity(source) | {"rows": LAYOUT}

    def buckets(self, source: DumpFile) -> int:
        """Number of buckets of the snapshot, from the size of the dump or the limit."""
        text_bytes = source.text_bytes
        return bucket_count(text_bytes if self.limit is None else min(text_bytes, self.limit * _LINE_BYTES))


def _named(file: Path) -> dict[str, str]:
    try:
        return {"name": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    except OSError as error:
        raise SourceError(f"The redirects {file} cannot be read: {error.strerror}. Check the path.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """Snapshots to build from a dump.

    Attributes:
        load: Options of the load; of several, its date is that of the first one.
        source: The dump, whose `sha256` the build sets.
        staging: Folder for what a later attempt can use.
        targets: The snapshots; several only if they are projections.
        buckets: Number of buckets of each snapshot.
    """

    load: Load
    source: DumpFile
    staging: Path
    targets: Sequence[Target]
    buckets: int


class SnapshotBuild(Protocol):
    """Builds the files of all buckets in the folders of the targets."""

    def __call__(self, plan: SnapshotPlan, check: CheckCounts) -> tuple[Counter[str], list[Joined]]:
        """Build the files.

        Args:
            plan: What to build.
            check: Called between parsing and writing.

        Returns:
            Counts of what was parsed (kgedit.store.schemas.Parsed), and of the rows of each snapshot.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBuild:
    """Builds snapshots on this machine.

    Attributes:
        workers: Number of worker processes that parse.
        progress: Called with the number of source bytes read and of lines parsed so far.
        joining: Called with the thousandths and the number of rows joined so far.
    """

    workers: int
    progress: Advance = ignore
    joining: Advance = ignore

    def __call__(self, plan: SnapshotPlan, check: CheckCounts) -> tuple[Counter[str], list[Joined]]:
        """Parse the blocks that no earlier attempt parsed, and join them."""
        load, parts = plan.load, PartFiles(plan.staging / "parts", plan.buckets)
        blocks, counts = parse_blocks(
            parts,
            plan.source,
            load.make_loader,
            framing=load.framing,
            limit=load.limit,
            workers=self.workers,
            progress=self.progress,
        )
        counts.update(read_late_values(parts, blocks, load.make_loader, spill=plan.staging / "spill"))
        check(counts)
        joined = join_parts(
            parts,
            blocks,
            plan.targets,
            workers=self.workers,
            datatypes_by_property=load.datatypes_by_property,
            progress=self.joining,
        )
        return counts, joined


MISSING_VALUE = "value described nowhere"
"""Reason for finally leaving a statement out. Counts as bad."""

_STATEMENTS_AT_ONCE = 20_000


def read_late_values(parts: PartFiles, blocks: int, make_loader: Callable[[], Loader], *, spill: Path) -> Counter[str]:
    """Write the claims of each block that waited for values. Returns their counts.

    Args:
        parts: The part files.
        blocks: Number of blocks.
        make_loader: Creates the loader that parsed the blocks.
        spill: Spill folder.
    """
    numbers = [number for number in range(blocks) if _waiting(parts, number).is_file()]
    counts: Counter[str] = Counter()
    if not numbers:
        return counts
    loader = make_loader()
    with open_engine(spill) as connection:
        _find_nodes(connection, parts.folder, numbers)
        for number in numbers:
            claims = _read_block(connection, loader, _waiting(parts, number), counts)
            if claims:
                parts.write("late", number, pa.concat_tables(claims))
    return counts


def _waiting(parts: PartFiles, number: int) -> Path:
    return parts.folder / f"waiting-{number:06d}.parquet"


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
