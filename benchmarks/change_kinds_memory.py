"""Time and memory needed to judge the kinds of many changes, on two generated snapshots.

    python benchmarks/change_kinds_memory.py --changes 100000

Each subject has an item, a number and a text, one of which changes; places form a tree of five levels, classes one of
seven. The snapshots are written with DuckDB, without a dump; a child process judges the changes and reports its costs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from kgedit.store.engine import literal
from kgedit.store.schemas import CLAIMS_KEPT, ENTITIES, FACTS
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.kinds import WindowChanges, describe_kinds

DATES = {"old": (20210104, "2021-01-04"), "new": (20230227, "2023-02-27")}
FACTS_OF = """
    SELECT 'Q' || (1000000 + i) AS subject, 'P6' AS property,
           'Q' || CASE WHEN {new} AND i % 3 = 0 THEN i % 50000 // 10 + 1 ELSE i % 50000 + 1 END AS object
    FROM range({n}) t(i)
    UNION ALL
    SELECT 'Q' || (1000000 + i), 'P2046', 'V' || CASE WHEN {new} AND i % 3 = 1 THEN i % 997 + 0.5 ELSE i % 997 END
    FROM range({n}) t(i)
    UNION ALL
    SELECT 'Q' || (1000000 + i), 'P1448',
           'V' || CASE WHEN {new} AND i % 3 = 2 THEN 'name ' ELSE 'the name ' END || i % 9973
    FROM range({n}) t(i)
    UNION ALL
    SELECT 'Q' || (i + 1), 'P131', 'Q' || (i // 10 + 1) FROM range(10, 50000) t(i)
    UNION ALL
    SELECT 'Q' || (i + 1), 'P31', 'Q' || (60000 + i % 500) FROM range(50000) t(i)
    UNION ALL
    SELECT 'Q' || (60000 + i), 'P279', 'Q' || (60000 + i // 3) FROM range(3, 500) t(i)
"""


def write_snapshot(folder: Path, name: str, changes: int) -> Snapshot:
    """Write a snapshot with the three files from which kinds are judged."""
    date, day = DATES[name]
    target = folder / str(date)
    target.mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE fact AS {FACTS_OF.format(n=changes, new=name == 'new')}")
        known = {
            "kind": "CASE object[1] WHEN 'Q' THEN 'item' ELSE 'value' END",
            "rank": "'normal'",
            "statement_id": "subject || '$' || property",
            "place": "rowid",
            "statement_place": "rowid",
            "value_type": "CASE property WHEN 'P2046' THEN 'quantity' WHEN 'P1448' THEN 'string' END",
            "value": "CASE WHEN object[1] = 'V' THEN object[2:] END",
            "snak": "'value'",
            "datatype": "CASE WHEN object[1] = 'Q' THEN 'wikibase-item' WHEN property = 'P2046' THEN 'quantity' END",
            "restricted": "false",
            "label": "'Thing ' || id",
            "aliases": "[]",
        }
        for path, schema, source in (
            ("facts", FACTS, "fact"),
            ("claims", CLAIMS_KEPT, "fact"),
            ("entities", ENTITIES, "(SELECT DISTINCT subject AS id, 'Q' AS object, NULL AS property FROM fact)"),
        ):
            own = {"subject", "property", "object", "id"}
            columns = ", ".join(
                f"{name if name in own else known.get(name, 'NULL')} AS {name}" for name in schema.names
            )
            table = connection.sql(f"SELECT {columns} FROM {source} AS fact ORDER BY 1, 2, 3").to_arrow_table()
            pq.write_table(table.cast(schema), target / f"{path}.parquet")
    return Snapshot(target, {"date": day})


def judge(folder: Path) -> None:
    """Judge all changes between the two snapshots in a folder, and print time and memory."""
    old, new = (Snapshot(folder / str(date), {"date": day}) for date, day in DATES.values())
    changes = duckdb.sql(
        f"""
        SELECT subject, property, [o.object] AS old_objects, [n.object] AS new_objects
        FROM {literal(old.facts)} o JOIN {literal(new.facts)} n USING (subject, property)
        WHERE o.object <> n.object AND property IN ('P6', 'P2046', 'P1448')
        """
    ).to_arrow_table()
    before = peak_of_memory()
    started = time.perf_counter()
    kinds = describe_kinds(WindowChanges(old, new, [], changes), spill=folder / "spill")
    seconds = time.perf_counter() - started
    peak = peak_of_memory()
    counts = {row["values"]: row["counts"] for row in kinds["kind"].value_counts().to_pylist()}
    print(
        f"{changes.num_rows} changes: {seconds:.1f} s, peak of memory {peak:.0f} MB, {before:.0f} MB before; {counts}"
    )


def peak_of_memory() -> float:
    """Peak memory of this process in MB. The resource module would include the parent's."""
    [peak] = (
        line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(peak) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge is not None:
        judge(options.judge)
        return
    for changes in options.changes:
        with tempfile.TemporaryDirectory() as folder:
            for name in DATES:
                write_snapshot(Path(folder), name, changes)
            subprocess.run([sys.executable, __file__, "--judge", folder], check=True)


if __name__ == "__main__":
    main()
