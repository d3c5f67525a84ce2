"""From a dump file to a snapshot folder: parse blocks in worker processes, then sort and join once in DuckDB.

Each block becomes part files beside a count file that is written last. A load that dies goes on after the last block
that has one, and ends in the same bytes.
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from kgedit import __version__
from kgedit.errors import SourceError, StoreError
from kgedit.store.files import replace_folder, write_json
from kgedit.store.schemas import Loader
from kgedit.store.snapshots import Snapshot, open_snapshot, snapshot_folder
from kgedit.store.sources import BLOCK_BYTES, Source
from kgedit.wikidata.ids import INSTANCE_OF, RESTRICTIVE_QUALIFIER, TIME_QUALIFIERS
from kgedit.wikidata.times import day_number

Progress = Callable[[int, int], None]
"""Called with the bytes of the source read so far and the lines parsed so far."""

READ = ("lines", "statements")
"""Counts of what was read; every other count names a reason for leaving something out, or a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to load and how; everything here is part of the snapshot's identity.

    Attributes:
        date: Day of the dump.
        loader: Name in the registry of loaders.
        loader_version: That loader's version.
        make_loader: Makes the loader; must be picklable.
        options: The loader's options as they go into the manifest.
        limit: Only so many lines, or None for all.
        redirects: Tab-separated file (from, to, and optionally the first date), or None.
        bad_lines: Counts that make a line bad.
        bad_statements: Counts that make a statement bad.
        max_error_rate: Share of bad lines, or of bad statements, above which the load fails.
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

    def identity(self, source: Source) -> dict[str, Any]:
        """What must agree for half a load to be gone on with."""
        return {
            "kgedit": __version__,
            "date": str(self.date),
            "source": {"name": source.path.name, "size": source.size},
            "loader": {"name": self.loader, "version": self.loader_version, **self.options},
            "limit": self.limit,
            "redirects": self.redirects.name if self.redirects else None,
            "block_bytes": BLOCK_BYTES,
        }


def ingest(home: Path, load: Load, source: Source, *, workers: int, overwrite: bool, progress: Progress) -> Snapshot:
    """Load a dump into the store; a snapshot that is there already is left as it is.

    Raises:
        SourceError: if the dump cannot be read, or too much of it is bad; the store stays as it was.
        StoreError: if another dump is loaded under this date and `overwrite` is not set.
    """
    folder = snapshot_folder(home, load.date)
    if folder.exists() and not overwrite:
        return _same_snapshot(open_snapshot(home, load.date), load, source)
    staging = folder.with_name(f".{folder.name}.loading")
    _prepare(staging, load.identity(source))
    counts = _parse_blocks(staging / "parts", load, source, workers, progress)
    _check_error_rate(counts, load, source)
    whole = staging / "whole"
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    rows = _join_parts(staging / "parts", whole, load)
    write_json(whole / "manifest.json", _manifest(load, source, counts, rows))
    replace_folder(whole, folder)
    shutil.rmtree(staging)
    return open_snapshot(home, load.date)


def _same_snapshot(snapshot: Snapshot, load: Load, source: Source) -> Snapshot:
    manifest = snapshot.manifest
    identity = load.identity(source)
    keys = ("date", "loader", "limit", "redirects")
    same = all(manifest[key] == identity[key] for key in keys) and manifest["source"]["size"] == source.size
    if same and load.limit is None:
        for _ in source.blocks():
            pass
        same = source.sha256 == manifest["source"]["sha256"]
    if not same:
        raise StoreError(
            f"{snapshot.folder} holds another dump or was loaded with other options ({manifest['source']['name']}). "
            "Nothing was changed. To replace it, add --overwrite."
        )
    return snapshot


def _prepare(staging: Path, identity: dict[str, Any]) -> None:
    marker = staging / "load.json"
    if marker.is_file() and json.loads(marker.read_text(encoding="utf-8")) == identity:
        return
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "parts").mkdir(parents=True)
    write_json(marker, identity)


def _limited(blocks: Iterator[bytes], limit: int | None) -> Iterator[bytes]:
    if limit is None:
        yield from blocks
        return
    left = limit
    for block in blocks:
        lines = (line for line in block.splitlines() if line.strip(b" \t\r\n,[]"))
        taken = list(islice(lines, left))
        left -= len(taken)
        yield b"\n".join(taken)
        if left == 0:
            return


_loader: Loader
"""The worker process's own loader."""


def _start_worker(make_loader: Callable[[], Loader]) -> None:
    global _loader  # noqa: PLW0603 - one loader for each worker process
    _loader = make_loader()


def _parse_in_worker(block: bytes, parts: Path, number: int) -> Counter[str]:
    return _parse_block(_loader, block, parts, number)


def _parse_block(loader: Loader, block: bytes, parts: Path, number: int) -> Counter[str]:
    parsed = loader.parse(block)
    pq.write_table(parsed.claims, parts / f"claims-{number:06d}.parquet", compression="zstd")
    pq.write_table(parsed.entities, parts / f"entities-{number:06d}.parquet", compression="zstd")
    write_json(parts / f"counts-{number:06d}.json", dict(sorted(parsed.counts.items())))
    return parsed.counts


def _parse_blocks(parts: Path, load: Load, source: Source, workers: int, progress: Progress) -> Counter[str]:
    """Parse every block that has no count file yet; one block at a time per worker is in memory."""
    total: Counter[str] = Counter()
    todo: list[tuple[bytes, int]] = []

    def pending() -> Iterable[tuple[bytes, int]]:
        for number, block in enumerate(_limited(source.blocks(), load.limit)):
            done = parts / f"counts-{number:06d}.json"
            if done.is_file():
                total.update(json.loads(done.read_text(encoding="utf-8")))
                progress(source.position, total["lines"])
            else:
                yield block, number

    blocks = iter(pending())
    todo = list(islice(blocks, 2))
    if workers == 1 or len(todo) < 2:
        loader = load.make_loader()
        for block, number in _chain(todo, blocks):
            total.update(_parse_block(loader, block, parts, number))
            progress(source.position, total["lines"])
        return total
    # Spawned, not forked: Arrow and DuckDB hold threads that a fork would lose.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(load.make_loader,)) as pool:
        running: set[Future[Counter[str]]] = set()
        for block, number in _chain(todo, blocks):
            running.add(pool.submit(_parse_in_worker, block, parts, number))
            if len(running) > workers:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    total.update(future.result())
                progress(source.position, total["lines"])
        for future in running:
            total.update(future.result())
        progress(source.position, total["lines"])
    return total


def _chain(first: list[tuple[bytes, int]], rest: Iterator[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    yield from first
    first.clear()
    yield from rest


def _check_error_rate(counts: Counter[str], load: Load, source: Source) -> None:
    for what, reasons, read in (("lines", load.bad_lines, "lines"), ("statements", load.bad_statements, "statements")):
        bad = sum(counts[reason] for reason in reasons)
        if bad > load.max_error_rate * counts[read]:
            reasons_found = ", ".join(f"{counts[reason]:,} {reason}" for reason in reasons if counts[reason])
            raise SourceError(
                f"{bad:,} of {counts[read]:,} {what} of {source.path} cannot be read ({reasons_found}), more than "
                f"{load.max_error_rate:.1%}. The store is unchanged. If this is acceptable, raise --max-error-rate."
            )
    if counts["lines"] == 0:
        raise SourceError(f"{source.path} holds no line that could be an entity. Is it a Wikidata JSON dump?")


def _join_parts(parts: Path, whole: Path, load: Load) -> dict[str, int]:
    """Sort, drop what occurs twice (the first occurrence stays), flag restricted statements, add redirects.

    An id that two different statements bear stays with one of them; the others get "#2", "#3", ...
    """
    connection = duckdb.connect()
    connection.execute("SET temp_directory = ?", [str(whole / "spill")])
    connection.execute(f"SET threads = {os.cpu_count() or 1}")

    def read(name: str) -> str:
        return f"read_parquet('{parts}/{name}-*.parquet', filename = true, file_row_number = true)"

    connection.execute(
        f"CREATE TEMP TABLE restrictive AS SELECT DISTINCT subject AS id FROM {read('claims')} "
        "WHERE property = ? AND object = ? AND rank <> 'deprecated'",
        [INSTANCE_OF, RESTRICTIVE_QUALIFIER],
    )
    restrictive = "(SELECT coalesce(list(id), []) FROM restrictive WHERE id NOT IN " + f"{TIME_QUALIFIERS})"
    connection.execute(
        f"""
        COPY (
            SELECT * EXCLUDE (filename, file_row_number, nth)
                     REPLACE (statement_id || CASE nth WHEN 1 THEN '' ELSE '#' || nth END AS statement_id),
                   list_has_any(qualifier_properties, {restrictive}) AS restricted
            FROM (
                SELECT *, row_number() OVER (PARTITION BY statement_id ORDER BY version) AS nth
                FROM (
                    SELECT * FROM {read("claims")}
                    QUALIFY row_number() OVER (PARTITION BY statement_id, version ORDER BY filename, file_row_number) = 1
                )
            )
            ORDER BY subject, property, statement_id
        ) TO '{whole}/claims.parquet' (FORMAT parquet, COMPRESSION zstd)
        """
    )
    connection.execute("CREATE TEMP TABLE redirects (id VARCHAR, target VARCHAR)")
    if load.redirects is not None:
        connection.execute(
            f"""
            INSERT INTO redirects SELECT trim(column0), trim(column1)
            FROM read_csv('{load.redirects}', delim = '\t', header = false, all_varchar = true, null_padding = true,
                          columns = {{'column0': 'VARCHAR', 'column1': 'VARCHAR', 'column2': 'VARCHAR'}})
            WHERE regexp_matches(column0, '^[QPL][0-9]+$')
              AND (column2 IS NULL OR replace(column2, '-', '')::INTEGER <= {day_number(load.date)})
            """
        )
    connection.execute(
        f"""
        COPY (
            SELECT * EXCLUDE (filename, file_row_number) FROM {read("entities")}
            QUALIFY row_number() OVER (PARTITION BY id ORDER BY filename, file_row_number) = 1
            UNION ALL BY NAME
            SELECT id, CASE id[1] WHEN 'P' THEN 'property' ELSE 'item' END AS kind, target AS redirect_target
            FROM redirects WHERE id NOT IN (SELECT id FROM {read("entities")})
            ORDER BY id
        ) TO '{whole}/entities.parquet' (FORMAT parquet, COMPRESSION zstd)
        """
    )
    counted = connection.execute(
        f"""
        SELECT (SELECT count(*) FROM {read("claims")}), (SELECT count(*) FROM {read("entities")}),
               count(*), count(*) FILTER (snak = 'value'),
               (SELECT count(*) FROM '{whole}/entities.parquet' WHERE redirect_target IS NULL),
               (SELECT count(*) FROM '{whole}/entities.parquet' WHERE redirect_target IS NOT NULL)
        FROM '{whole}/claims.parquet'
        """
    ).fetchone()
    connection.close()
    shutil.rmtree(whole / "spill", ignore_errors=True)
    names = ("claims read", "entities read", "claims", "claims with a value", "entities", "redirects")
    return dict(zip(names, counted or (), strict=True))


def _manifest(load: Load, source: Source, counts: Counter[str], rows: dict[str, int]) -> dict[str, Any]:
    left_out = {reason: count for reason, count in sorted(counts.items()) if reason not in READ and count}
    left_out["repeated statement"] = rows["claims read"] - rows["claims"]
    left_out["repeated entity"] = rows["entities read"] - rows["entities"]
    identity = load.identity(source)
    identity["source"]["sha256"] = source.sha256 if load.limit is None else None
    return identity | {
        "lines": counts["lines"],
        "statements": counts["statements"],
        "entities": rows["entities"],
        "redirected": rows["redirects"],
        "claims": rows["claims"],
        "claims_with_value": rows["claims with a value"],
        "left_out": {reason: count for reason, count in left_out.items() if count},
        "complete": True,
    }
