"""Joins part files into the three files of each snapshot, a few parts at a time.

Several snapshots, as of several days, are written in the same pass.

Facts are decided here, because all claims of an entity are together and complete. Rows keep the dump's order: sorting
them by subject would spill as much as the whole dump, and no reader needs it because all of them join by hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.progress import Advance
from kgedit.store.as_of import find_later_items, project
from kgedit.store.digests import ENTITIES_KEPT, with_digests
from kgedit.store.engine import literal, open_engine
from kgedit.store.facts import current_facts
from kgedit.store.redirects import REDIRECT_ROWS, GivenRedirects, make_redirects
from kgedit.store.schemas import CLAIMS, ENTITIES, FACTS
from kgedit.wikidata.ids import INSTANCE_OF, RESTRICTIVE_QUALIFIER, TIME_QUALIFIERS

ROW_GROUP_ROWS = 122_880
"""Exact number of rows per row group, so that the same input gives the same bytes with any number of threads."""

CLAIMS_KEPT = CLAIMS.append(pa.field("restricted", pa.bool_()))
"""Columns of a snapshot's claims."""

_ROWS_AT_ONCE = 200_000
"""Claims and entities that are joined at once, about 200 MB; a part that has more is joined alone. Parts are counted by
rows, because a part of thin lines has ten times as many as one of thick lines."""

_MEMORY = "448MB"
"""Memory of the joins on two cores; the rest spills to disk."""


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
    datatypes_by_property: bool = False,
    progress: Advance,
) -> list[Joined]:
    """Write ``claims.parquet``, ``facts.parquet`` and ``entities.parquet`` of each snapshot.

    The first occurrence of a repeated entity is kept, with its statements, and so is the first of equal statements. If
    different statements share an id, one of them keeps it and the others get "#2", "#3", ...

    Args:
        parts: Folder of part files.
        blocks: Number of part files of each kind.
        targets: The snapshots; several only if they are projections.
        datatypes_by_property: Whether a statement without a datatype gets that of its property.
        progress: Called with the thousandths done and the number of rows joined.
    """
    with open_engine(targets[0].folder / "spill", memory=_MEMORY) as connection:
        return _Join(connection, parts, blocks, datatypes_by_property, progress).write(targets)


_KEPT_CLAIMS = """
    SELECT c.* FROM {claims} c LEFT JOIN repeated ON subject = id
    WHERE id IS NULL OR block = place.block
"""
"""Claims without those of later occurrences of an entity."""

_FIND_REPEATED_ENTITIES = """
    CREATE TEMP TABLE repeated AS
    SELECT id, min({{block: block, line: file_row_number}}) AS place FROM {entities}
    WHERE redirect_target IS NULL
      AND hash(id) IN (SELECT hash(id) FROM {entities} WHERE redirect_target IS NULL GROUP BY ALL HAVING count(*) > 1)
    GROUP BY id HAVING count(*) > 1
"""
"""Hashing first keeps the many ids that occur once out of memory; the same applies to statements below."""

_FIND_SHARED_IDS = f"""
    CREATE TEMP TABLE shared AS
    SELECT block, file_row_number,
           dense_rank() OVER (PARTITION BY statement_id ORDER BY subject, property, version) AS nth,
           row_number() OVER (PARTITION BY statement_id, version ORDER BY block, file_row_number) AS copy
    FROM ({_KEPT_CLAIMS})
    WHERE hash(statement_id) IN (SELECT hash(statement_id) FROM {{claims}} GROUP BY ALL HAVING count(*) > 1)
"""

_CLAIMS = f"""
    SELECT c.* EXCLUDE (block, file_row_number)
               REPLACE (CASE WHEN nth > 1 THEN statement_id || '#' || nth ELSE statement_id END AS statement_id,
                        coalesce(of_property.datatype, c.datatype) AS datatype),
           list_has_any(qualifier_properties, getvariable('restrictive')) AS restricted
    FROM ({_KEPT_CLAIMS}) c LEFT JOIN shared USING (block, file_row_number)
         LEFT JOIN of_property ON of_property.id = c.property
    WHERE copy IS NULL OR copy = 1
    ORDER BY block, file_row_number
"""

_ENTITIES = """
    SELECT e.* EXCLUDE (block, file_row_number) FROM {entities} e LEFT JOIN repeated USING (id)
    WHERE redirect_target IS NULL AND (place IS NULL OR place = {{block: block, line: file_row_number}})
    ORDER BY block, file_row_number
"""

_ROW_NUMBER = f"file_row_number + CASE WHEN parse_filename(filename) LIKE 'late-%' THEN {2**40} ELSE 0 END"
"""Claims that waited for their values follow the others of their block."""


class _Join:
    """State of one call of `join_parts`."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        parts: Path,
        blocks: int,
        datatypes_by_property: bool,
        progress: Advance,
    ) -> None:
        self._connection = connection
        self._parts = parts
        self._blocks = range(blocks)
        self._datatypes_by_property = datatypes_by_property
        self._progress = progress
        self._to_write = self._written = 0

    def write(self, targets: Sequence[Target]) -> list[Joined]:
        claims_read, entities_read = self._count("{claims}"), self._count("{entities} WHERE redirect_target IS NULL")
        self._to_write = claims_read + entities_read
        self._connection.execute(self._over(_FIND_REPEATED_ENTITIES))
        self._connection.execute(self._over(_FIND_SHARED_IDS))
        kept = self._count(f"({_KEPT_CLAIMS})")
        self._find_restrictive_qualifiers()
        self._find_datatypes()
        days = [target.date for target in targets if target.as_of]
        if days:
            find_later_items(self._connection, self._over("{claims}"), first=min(days))
        written = self._write_groups(targets)
        return [
            Joined(
                claims=rows.claims,
                claims_with_value=self._count(f"{literal(target.folder / 'claims.parquet')} WHERE snak = 'value'"),
                facts=rows.facts,
                entities=rows.entities,
                redirects=rows.redirects,
                redirects_left_out=rows.redirects_left_out,
                repeated_entities=entities_read - rows.entities_joined,
                repeated_statements=kept - rows.claims_joined,
                statements_of_repeated_entities=claims_read - kept,
                placements=rows.placements,
                later_entities=rows.entities_joined - rows.entities,
            )
            for target, rows in zip(targets, written, strict=True)
        ]

    def _over(self, query: str, numbers: range | None = None) -> str:
        """Fill in a query for these parts; None means all parts."""
        return query.format(claims=self._read("claims", numbers), entities=self._read("entities", numbers))

    def _read(self, name: str, numbers: range | None) -> str:
        chosen = self._blocks if numbers is None else numbers
        paths = [self._parts / f"{name}-{number:06d}.parquet" for number in chosen]
        if name == "claims":
            late = (self._parts / f"late-{number:06d}.parquet" for number in chosen)
            paths += [path for path in late if path.is_file()]
        read = f"read_parquet([{', '.join(map(literal, paths))}], filename = true, file_row_number = true)"
        return (
            f"(SELECT * EXCLUDE (filename) REPLACE ({_ROW_NUMBER} AS file_row_number), right(filename, 14) AS block "
            f"FROM {read})"
        )

    def _count(self, rows: str) -> int:
        return int(self._connection.execute(self._over(f"SELECT count(*) FROM {rows}")).fetchall()[0][0])

    def _find_restrictive_qualifiers(self) -> None:
        self._connection.execute(
            self._over(
                "SET VARIABLE restrictive = (SELECT coalesce(list(DISTINCT subject), []) FROM {claims} "
                f"WHERE property = '{INSTANCE_OF}' AND object = '{RESTRICTIVE_QUALIFIER}' AND rank <> 'deprecated' "
                f"AND subject NOT IN {TIME_QUALIFIERS})"
            )
        )

    def _find_datatypes(self) -> None:
        """Create table ``of_property`` with the datatypes that statements take from their properties."""
        properties = "SELECT id, any_value(datatype) AS datatype FROM {entities} WHERE datatype IS NOT NULL GROUP BY id"
        if not self._datatypes_by_property:
            properties = "SELECT id, datatype FROM {entities} LIMIT 0"
        self._connection.execute(self._over(f"CREATE TEMP TABLE of_property AS {properties}"))

    def _rows(self, query: str, numbers: range) -> pa.Table:
        """Rows of a query over a few parts, ordered by its own ORDER BY because DuckDB's joins keep no order."""
        return self._connection.sql(self._over(query, numbers)).to_arrow_table()

    def _write_groups(self, targets: Sequence[Target]) -> list[_SnapshotFiles]:
        """Write the three files of each snapshot, a few parts at a time, which contain whole entities."""
        with ExitStack() as stack:
            written = [stack.enter_context(_SnapshotFiles(target)) for target in targets]
            for numbers in self._groups():
                claim_rows = self._rows(_CLAIMS, numbers)
                known = self._rows(_ENTITIES, numbers).cast(ENTITIES)
                for files in written:
                    files.write(self._connection, claim_rows, known)
                self._report(claim_rows.num_rows + known.num_rows)
            for files in written:
                left_out = make_redirects(self._connection, self._over("{entities}"), files.target.redirects)
                files.write_redirects(self._connection.sql(REDIRECT_ROWS).to_arrow_table(), left_out)
        return written

    def _groups(self) -> Iterator[range]:
        """Numbers of the parts that are joined at once."""
        start = rows = 0
        for number in self._blocks:
            files = (self._parts / f"{kind}-{number:06d}.parquet" for kind in ("claims", "late", "entities"))
            more = sum(pq.read_metadata(path).num_rows for path in files if path.is_file())
            if rows and rows + more > _ROWS_AT_ONCE:
                yield range(start, number)
                start, rows = number, 0
            rows += more
        if start < len(self._blocks):
            yield range(start, len(self._blocks))

    def _report(self, rows: int) -> None:
        self._written += rows
        self._progress(1000 * self._written // max(self._to_write, 1), self._written)


class _SnapshotFiles:
    """Writes the three files of a snapshot and counts their rows; a context manager."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.claims = self.facts = self.entities = self.redirects = 0
        self.claims_joined = self.entities_joined = 0
        self.placements: Counter[str] = Counter()
        self.redirects_left_out: dict[str, int] = {}
        self._files = ExitStack()
        schemas = {"claims": CLAIMS_KEPT, "facts": FACTS, "entities": ENTITIES_KEPT}
        self._parts = {
            name: self._files.enter_context(_RowGroups(target.folder / f"{name}.parquet", schema))
            for name, schema in schemas.items()
        }

    def write(self, connection: duckdb.DuckDBPyConnection, claims: pa.Table, entities: pa.Table) -> None:
        """Add whole entities with all their claims."""
        self.claims_joined += claims.num_rows
        self.entities_joined += entities.num_rows
        if self.target.as_of:
            projected = project(connection, claims, entities, date=self.target.date)
            claims, entities = projected.claims, projected.entities
            self.placements += projected.placements
        current = current_facts(connection, claims, self.target.date)
        self.claims += self._parts["claims"].write(claims)
        self.facts += self._parts["facts"].write(current)
        self.entities += self._parts["entities"].write(with_digests(connection, entities, claims, current))

    def write_redirects(self, redirects: pa.Table, left_out: dict[str, int]) -> None:
        """Add redirects after all entities."""
        self.redirects += self._parts["entities"].write(redirects)
        self.redirects_left_out = left_out

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)


class _RowGroups:
    """Parquet file whose row groups have exactly ROW_GROUP_ROWS rows, except the last one."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = pq.ParquetWriter(path, schema, compression="zstd")
        self._rest = schema.empty_table()

    def write(self, table: pa.Table) -> int:
        """Add rows and return their number."""
        self._rest = pa.concat_tables([self._rest, table.cast(self._rest.schema)])
        while self._rest.num_rows >= ROW_GROUP_ROWS:
            # In one chunk, because the writer begins a page of its dictionary anew with each chunk.
            self._file.write_table(self._rest.slice(0, ROW_GROUP_ROWS).combine_chunks(), ROW_GROUP_ROWS)
            self._rest = self._rest.slice(ROW_GROUP_ROWS)
        return int(table.num_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._rest.num_rows:
            self._file.write_table(self._rest.combine_chunks(), ROW_GROUP_ROWS)
        self._file.close()
