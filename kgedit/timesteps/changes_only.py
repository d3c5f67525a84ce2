"""Takes what changed between two snapshots of a large store, and what the four questions need, as two small snapshots.

A part contains whole pairs of subject and property: all facts and statements of a pair in both snapshots, or none. A
fact of the part therefore changes if and only if it changes in the whole. Measures that need all facts, such as how
functional a relation is and which subjects are similar, are taken along.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.checksums import write_checksums
from kgedit.errors import StoreError
from kgedit.files import put_in_place, sync
from kgedit.progress import step
from kgedit.spark.session import Session
from kgedit.spark.tasks import run_parts, with_absolute_path
from kgedit.store.bucket_files import RowGroups, bucket_file
from kgedit.store.digests import ENTITIES_KEPT
from kgedit.store.disk import disk_errors
from kgedit.store.engine import literal, open_engine
from kgedit.store.files import only_writer, replace_folder, write_json
from kgedit.store.schemas import CLAIMS_KEPT, FACTS
from kgedit.store.snapshots import (
    RELATIONS,
    SELECTION,
    SIMILAR_FACTS,
    BucketGroup,
    Snapshot,
    SnapshotTable,
    bucket_groups,
    check_selection,
    list_snapshots,
    read_snapshot,
)
from kgedit.store.tasks import Share
from kgedit.store.window import Window
from kgedit.timesteps.engines.functionality import current_relations, stated_relations
from kgedit.timesteps.engines.store import read_sql
from kgedit.timesteps.export import WikiBigEditSettings
from kgedit.timesteps.locality import CANDIDATES
from kgedit.timesteps.needed_pairs import write_needed
from kgedit.wikidata.times import not_before

_MEMORY = "128MB"
"""Memory limit of DuckDB; the rest spills to disk."""

_ROWS_AT_ONCE = 20_000

_STEPS = 4


def take_changes(home: Path, old: Snapshot, new: Snapshot) -> tuple[Snapshot, Snapshot]:
    """Write the parts of two snapshots of another store that an export between them reads.

    Exports of the profile wikibigedit from the parts have the same tables as exports from the whole snapshots, with
    settings up to the defaults of `max_df` and `pool`, without chains of more than two facts, and without earlier
    snapshots.

    Args:
        home: Home folder for the parts, without other snapshots.
        old: The older snapshot.
        new: The newer one.

    Returns:
        The two parts, in as many buckets as both snapshots have. Existing parts of the same snapshots are kept; an
        interrupted call is continued.

    Raises:
        StoreError: if the dates are reversed, the snapshots are parts themselves, or the home contains other snapshots
            or parts that another version of kgedit selected.
        DamagedFileError: if a file of the other store is damaged.
    """
    taking = _Taking(home, old, new)
    with disk_errors(home), only_writer(home / "snapshots" / ".changes.lock", of="what changed"):
        if taking.is_to_do():
            taking.select()
            step("writing the files", _STEPS - 1, _STEPS)
            taking.write_buckets(range(taking.buckets))
            taking.complete()
        older, newer = (read_snapshot(home / "snapshots" / snapshot.folder.name) for snapshot in (old, new))
        return older, newer


def run_changes_task(home: Path, old: Snapshot, new: Snapshot, stage: str, share: Share) -> int:
    """Do a share of a stage of `take_changes`, which completes the parts afterwards.

    Args:
        home: Home folder for the parts, shared by all processes.
        old: The older snapshot.
        new: The newer one.
        stage: One of kgedit.store.CHANGES_STAGES; select-changes has one share.
        share: The share.

    Returns:
        Number of buckets of the share.

    Raises:
        StoreError: as for `take_changes`, or if nothing is selected yet.
        DamagedFileError: if a file of the other store is damaged.
    """
    taking = _Taking(home, old, new)
    numbers = [number for number in range(taking.buckets) if number in share]
    with disk_errors(home):
        if taking.is_to_do() and stage == "select-changes":
            if share.of != 1:
                raise StoreError("The stage select-changes has one part. Leave out --part, or give 1/1.")
            taking.select()
        elif taking.is_to_do():
            taking.write_buckets(numbers)
    return len(numbers)


def take_changes_on_spark(session: Session, home: Path, old: Snapshot, new: Snapshot) -> int:
    """Write all buckets of `take_changes`, one task for each; those that are there are kept.

    Args:
        session: Session on the cluster.
        home: Home folder for the parts, which the driver and all executors see under the same path, as the other store.
        old: The older snapshot.
        new: The newer one.

    Returns:
        Number of buckets.

    Raises:
        StoreError: as for `run_changes_task`, if a task fails, or the buckets are not where the driver looks.
    """
    taking = _Taking(home.absolute(), with_absolute_path(old), with_absolute_path(new))
    if taking.is_to_do():
        taking.check_selected()  # before each task fails as often as Spark tries it

        def write(number: int) -> None:
            with disk_errors(home):
                taking.write_buckets([number])

        run_parts(session, write, taking.buckets, folder=home.absolute(), missing=taking.missing_buckets)
    return taking.buckets


class _Taking:
    """Steps of `take_changes`, which may be in several processes on machines that share the home.

    Attributes:
        buckets: Number of buckets of the parts, each written for itself.
    """

    def __init__(self, home: Path, old: Snapshot, new: Snapshot) -> None:
        """Check the snapshots; arguments of `take_changes`.

        Raises:
            StoreError: if the dates are reversed, or the snapshots are parts themselves.
        """
        if old.date >= new.date:
            raise StoreError(not_before(old.name, new.name))
        if old.is_part or new.is_part:
            raise StoreError(
                f"{old.folder.parent} contains only what changed. Give the store with the whole snapshots."
            )
        self._home, self._whole = home, (old, new)
        self._groups = bucket_groups(self._whole)
        self.buckets = len(self._groups)
        folder = home / "snapshots"
        self._selection = folder / ".changes"
        self._folders = [folder / snapshot.folder.name for snapshot in self._whole]
        self._asides = [folder / f".{snapshot.folder.name}.changes" for snapshot in self._whole]
        self._wanted = [self._manifest(snapshot) for snapshot in self._whole]

    def _manifest(self, snapshot: Snapshot) -> dict[str, Any]:
        """Manifest of a part, without its counts."""
        defaults = WikiBigEditSettings()
        whole = {name: snapshot.manifest[name] for name in _COUNTS}
        similar = {"max_df": defaults.max_df, "k": CANDIDATES, "pool": defaults.pool}
        part = {
            "between": [one.name for one in self._whole],
            "similar": similar,
            "whole": whole,
            "selection": SELECTION,
        }
        return snapshot.manifest | {"part": part, "buckets": self.buckets}

    def is_to_do(self) -> bool:
        """Whether a part is missing.

        Raises:
            StoreError: if the home contains other snapshots, or parts that another version of kgedit selected.
        """
        identities = [_identity(manifest) for manifest in self._wanted]
        there = list_snapshots(self._home)
        check_selection(there)
        if other := [snapshot.name for snapshot in there if _identity(snapshot.manifest) not in identities]:
            raise StoreError(
                f"{self._home} already contains other snapshots ({', '.join(other)}). What changed is compared with no "
                "other snapshot. Choose another home with $KGEDIT_HOME, or remove them: kgedit drop-snapshot DAY"
            )
        return len(there) < len(self._wanted)

    def select(self) -> None:
        """Find the pairs and entities of each bucket; an existing selection for the same parts is kept."""
        if self._is_selected():
            return
        for folder in (self._selection, *self._asides):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        titles = iter(range(_STEPS))
        with Window(*self._whole, spill=self._selection / ".spill", memory=_MEMORY) as window:
            write_needed(
                window,
                self._selection,
                self._asides[-1] / f"{SIMILAR_FACTS}.parquet",
                settings=WikiBigEditSettings(),
                begin=lambda title: step(title, next(titles), _STEPS),
            )
        for path in (*self._selection.glob("*.parquet"), *self._asides[-1].iterdir()):
            sync(path)
        write_json(self._selection / _SELECTED, {"parts": [_identity(manifest) for manifest in self._wanted]})

    def _is_selected(self) -> bool:
        path = self._selection / _SELECTED
        wanted = {"parts": [_identity(manifest) for manifest in self._wanted]}
        return path.is_file() and bool(json.loads(path.read_bytes()) == wanted)

    def check_selected(self) -> None:
        """Check that the selection exists.

        Raises:
            StoreError: if nothing is selected for these parts.
        """
        if not self._is_selected():
            raise StoreError("What changed is not selected. Run this stage first: kgedit task select-changes")

    def write_buckets(self, numbers: Iterable[int]) -> None:
        """Write buckets of both parts; existing files are kept.

        Raises:
            StoreError: if nothing is selected for these parts.
        """
        self.check_selected()
        with open_engine(self._selection / f".spill-{uuid.uuid4().hex}", memory=_MEMORY) as connection:
            for number in numbers:
                for aside, snapshot in zip(self._asides, self._whole, strict=True):
                    self._write_bucket(connection, self._groups[number], snapshot, aside)

    def _write_bucket(
        self, connection: duckdb.DuckDBPyConnection, group: BucketGroup, snapshot: Snapshot, folder: Path
    ) -> None:
        folder.mkdir(exist_ok=True)
        pairs, entities = (
            literal(self._selection / bucket_file(name, group.number, group.of)) for name in ("pairs", "entities")
        )
        chosen: dict[SnapshotTable, tuple[str, pa.Schema]] = {
            "claims": (
                f"SEMI JOIN {pairs} USING (subject, property) "
                "ORDER BY subject, property, statement_id, version, restricted",
                CLAIMS_KEPT,
            ),
            "facts": (f"SEMI JOIN {pairs} USING (subject, property) ORDER BY subject, property, object", FACTS),
            "entities": (f"SEMI JOIN {entities} USING (id) ORDER BY redirect_target IS NOT NULL, id", ENTITIES_KEPT),
        }
        for table, (rows, schema) in chosen.items():
            path = folder / bucket_file(table, group.number, group.of)
            if path.is_file():
                continue
            query = f"SELECT {', '.join(schema.names)} FROM {group.rows(snapshot, table)} {rows}"
            making = folder / f".{path.name}-{uuid.uuid4().hex}"
            with RowGroups(making, schema) as file:
                for batch in connection.sql(query).to_arrow_reader(_ROWS_AT_ONCE):
                    file.write(pa.Table.from_batches([batch]))
            put_in_place(making, path)  # another attempt at the bucket gives the same bytes

    def missing_buckets(self) -> list[int]:
        """Numbers of the buckets of which a file is missing."""
        return [
            group.number
            for group in self._groups
            if not all(
                (aside / bucket_file(table, group.number, group.of)).is_file()
                for aside in self._asides
                for table in _TABLES
            )
        ]

    def complete(self) -> None:
        """Count both parts, measure the whole snapshots, and put the parts in place."""
        for aside, manifest, snapshot in zip(self._asides, self._wanted, self._whole, strict=True):
            for left in aside.glob(".*"):  # of attempts that were ended
                left.unlink()
            with Window(snapshot, snapshot, spill=aside.with_suffix(".spill"), memory=_MEMORY) as alone:
                pq.write_table(_relations(alone), aside / f"{RELATIONS}.parquet", compression="zstd")
                counts = _count(alone.connection, Snapshot(aside, manifest))
            write_json(aside / "manifest.json", manifest | counts)
            write_checksums(aside)
        for aside, folder in zip(self._asides, self._folders, strict=True):
            replace_folder(aside, folder)
        shutil.rmtree(self._selection)


_SELECTED = "selected.json"
_TABLES: tuple[SnapshotTable, ...] = ("claims", "facts", "entities")


def _identity(manifest: dict[str, Any]) -> dict[str, Any]:
    return {name: content for name, content in manifest.items() if name not in _COUNTS}


_COUNTS = ("entities", "redirected", "claims", "claims_with_value", "facts")


def _count(connection: duckdb.DuckDBPyConnection, part: Snapshot) -> dict[str, int]:
    counted = {
        "entities": (part.entities, "redirect_target IS NULL"),
        "redirected": (part.entities, "redirect_target IS NOT NULL"),
        "claims": (part.claims, "true"),
        "claims_with_value": (part.claims, "snak = 'value'"),
        "facts": (part.facts, "true"),
    }
    return {
        name: connection.execute(f"SELECT count(*) FROM {literal(path)} WHERE {condition}").fetchall()[0][0]
        for name, (path, condition) in counted.items()
    }


def _relations(window: Window) -> pa.Table:
    """The measure RELATIONS of the newer snapshot."""
    facts = window.select(current_relations(window))
    counts = window.select_by_bucket(read_sql("functional_counts"), asked=facts.select(["property"]))
    return window.select(
        f"""
        SELECT property, coalesce(subjects, 0) AS subjects, coalesce(single, 0) AS single,
               coalesce(stated, 0) AS stated, coalesce(dated, 0) AS dated,
               coalesce(facts, 0) AS facts, coalesce(dated_facts, 0) AS dated_facts
        FROM (
            SELECT property, sum(subjects)::BIGINT AS subjects, sum(single)::BIGINT AS single
            FROM counts GROUP BY property
        ) FULL JOIN ({stated_relations(window)}) USING (property) FULL JOIN facts USING (property)
        ORDER BY property
        """,
        counts=counts,
        facts=facts,
    )
