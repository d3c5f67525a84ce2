"""Writes a store with the snapshots of another one several times over, to measure stages that follow a load.

    python benchmarks/repeat_store.py HOME LARGER --times 16

Generating and loading 16 million statements takes most of an hour, and repeating a store of one million some minutes.
Each copy has its own item ids, labels and strings, and refers to its own items. Properties, and items that more than a
hundred facts refer to (classes, countries, genders), are described once and shared by all copies. The rows of each
bucket have the columns and encodings of a load.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.checksums import write_checksums
from kgedit.store.bucket_files import RowGroups, bucket_file
from kgedit.store.bucket_numbers import bucket_of
from kgedit.store.digests import ENTITIES_KEPT
from kgedit.store.engine import literal
from kgedit.store.files import write_json
from kgedit.store.schemas import CLAIMS_KEPT, FACTS
from kgedit.store.snapshots import Snapshot, list_snapshots

_FREQUENT = 100
"""Facts about an item from which it is common to all copies."""

_OF_COPY = "(copy * 100000000 + {id}[2:]::BIGINT)"
_ITEM = f"CASE WHEN {{id}}[1] = 'Q' AND {{id}} NOT IN (FROM common) THEN 'Q' || {_OF_COPY} ELSE {{id}} END"
_TEXT = "CASE WHEN copy > 0 THEN {text} || chr((96 + copy)::INTEGER) ELSE {text} END"
_STRINGS = "('string', 'external-id', 'monolingualtext')"
_PLACE = "(copy::BIGINT << 48) + {place}"
_ROWS_AT_ONCE = 100_000

_QUERIES = {
    "claims": (
        CLAIMS_KEPT,
        f"""
        SELECT claims.* REPLACE (
            new_id AS subject, new_id || statement_id[len(subject) + 1:] AS statement_id,
            {_ITEM.format(id="object")} AS object,
            CASE WHEN datatype IN {_STRINGS} THEN {_TEXT.format(text="value")} ELSE value END AS value,
            {_PLACE.format(place="place")} AS place)
        FROM {{rows}} claims JOIN chosen ON id = subject ORDER BY place
        """,
    ),
    "facts": (
        FACTS,
        f"""
        SELECT * REPLACE (CASE WHEN object[1] = 'V' THEN 'V' || md5(concat_ws(chr(31), value_type,
            coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''), coalesce(precision, ''),
            coalesce(calendar, ''))) ELSE object END AS object)
        FROM (
            SELECT facts.* REPLACE (
                new_id AS subject, {_ITEM.format(id="object")} AS object,
                CASE WHEN value_type IN {_STRINGS} THEN {_TEXT.format(text="value")} ELSE value END AS value,
                {_PLACE.format(place="statement_place")} AS statement_place,
                list_transform(statement_places, lambda x: {_PLACE.format(place="x")}) AS statement_places)
            FROM {{rows}} facts JOIN chosen ON id = subject
        ) ORDER BY statement_place
        """,
    ),
    "entities": (
        ENTITIES_KEPT,
        f"""
        SELECT entities.* REPLACE (
            new_id AS id, {_TEXT.format(text="label")} AS label,
            {_ITEM.format(id="redirect_target")} AS redirect_target)
        FROM {{rows}} entities JOIN chosen USING (id) ORDER BY redirect_target IS NOT NULL, new_id
        """,
    ),
}


def repeat(snapshot: Snapshot, common: pa.Table, folder: Path, *, times: int) -> None:
    """Write the copies of a snapshot.

    Args:
        snapshot: The snapshot.
        common: Column id: what all copies share.
        folder: Folder of the larger snapshot.
        times: Number of copies.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    connection = duckdb.connect(config={"threads": 1})
    connection.register("common", common)
    ids = connection.sql(
        f"""
        SELECT id, copy, {_ITEM.format(id="id")} AS new_id
        FROM (SELECT id, unnest(range({times}))::BIGINT AS copy FROM {literal(snapshot.entities)})
        WHERE copy = 0 OR id[1] = 'Q' AND id NOT IN (FROM common)
        """
    ).to_arrow_table()
    buckets = snapshot.buckets * times
    ids = ids.append_column("bucket", bucket_of(ids["new_id"], buckets))
    counts = dict.fromkeys(_QUERIES, 0)
    for number in range(buckets):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE chosen AS FROM ids WHERE bucket = {number}")
        for table, (schema, query) in _QUERIES.items():
            rows = query.format(rows=literal(getattr(snapshot, table)))
            columns = f"SELECT {', '.join(schema.names)} FROM ({rows})"
            with RowGroups(folder / bucket_file(table, number, buckets), schema) as file:
                for batch in connection.sql(columns).to_arrow_reader(_ROWS_AT_ONCE):
                    file.write(pa.Table.from_batches([batch]))
                    counts[table] += batch.num_rows
    write_json(folder / "manifest.json", snapshot.manifest | counts | {"buckets": buckets})
    write_checksums(folder)
    print(folder.name, json.dumps(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("larger", type=Path)
    parser.add_argument("--times", type=int, default=16)
    given = parser.parse_args()
    snapshots = list_snapshots(given.home)
    common = duckdb.sql(
        f"""
        SELECT id FROM {literal(snapshots[-1].entities)} WHERE id[1] <> 'Q' OR id[2:]::BIGINT < 10000000
        UNION SELECT object FROM {literal(snapshots[0].facts)} WHERE object[1] = 'Q'
        GROUP BY object HAVING count(*) > {_FREQUENT}
        """
    ).to_arrow_table()
    for snapshot in snapshots:
        repeat(snapshot, common, given.larger / "snapshots" / snapshot.folder.name, times=given.times)


if __name__ == "__main__":
    main()
