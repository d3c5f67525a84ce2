"""What the graph's two hot paths gain: batched deltas over row-by-row writes, index seeks over scans.

    python benchmarks/graph.py [COPIES]

Takes two snapshots of the bundled sample, adds COPIES (default 60) of its items that do not change, loads them into a
temporary home with a server of its own, and prints each figure with its ratio to a baseline measured in the same run.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from kgedit.loaders.wikidata_json import Options, Parser

from kgedit.graph import projection
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query, write_query
from kgedit.graph.server import ManagedServer
from kgedit.sample.generate import SNAPSHOT_DATES, write_world
from kgedit.store.files import write_json
from kgedit.store.ingest import Load, ingest
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.store.sources import Source
from kgedit.store.versions import write_delta


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def add_what_does_not_change(snapshots: list[Snapshot], copies: int) -> None:
    """Add to both snapshots the same disjoint copies of the first: ids of items and statements get a number."""
    with duckdb.connect() as connection:
        for name, ids in (("claims", ("subject", "object")), ("entities", ("id", "redirect_target"))):
            renamed = [
                f"CASE {column}[1] WHEN 'Q' THEN {column} || '00' || n ELSE {column} END AS {column}" for column in ids
            ]
            if name == "claims":
                renamed.append("statement_id || '-' || n AS statement_id")
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * EXCLUDE (n) REPLACE ({', '.join(renamed)}) "
                f"FROM '{getattr(snapshots[0], name)}' CROSS JOIN (SELECT unnest(range({copies})) AS n) "
                f"WHERE {ids[0]}[1] = 'Q'"
            )
            for snapshot in snapshots:
                path = getattr(snapshot, name)
                whole = f"SELECT * FROM '{path}' UNION ALL SELECT * FROM {name}"
                connection.execute(f"COPY ({whole}) TO '{path.with_suffix('.aside')}' (FORMAT parquet)")
                path.with_suffix(".aside").replace(path)
        for snapshot in snapshots:
            count = f"SELECT count(*) FROM '{snapshot.claims}' WHERE snak = 'value'"
            claims = {"claims_with_value": connection.execute(count).fetchall()[0][0]}
            write_json(snapshot.folder / "manifest.json", snapshot.manifest | claims)


def main() -> None:
    copies = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for path, date in zip(write_world(home / "sample")[:2], SNAPSHOT_DATES[:2], strict=True):
            load = Load(
                date=date, loader="wikidata_json", loader_version=Parser.version, make_loader=lambda: Parser(Options()),
                options={}, limit=None, redirects=None, bad_lines=(), bad_statements=(), max_error_rate=0.0,
            )  # fmt: skip
            ingest(home, load, Source(path), workers=1, overwrite=False, progress=lambda *_: None)
        add_what_does_not_change(list_snapshots(home), copies)
        try:
            measure(home)
        finally:
            ManagedServer(home).stop()


def measure(home: Path) -> None:
    snapshots = list_snapshots(home)
    ignore = lambda *_: None  # noqa: E731 - progress is not wanted here
    claims = snapshots[0].manifest["claims_with_value"]
    seconds = timed(lambda: projection.bring_up_to_date(home, snapshots[:1], progress=ignore))
    print(f"bulk import, server start included: {claims:,} claims in {seconds:.1f} s, {claims / seconds:,.0f}/s")
    (home / "rows").mkdir()
    write_delta(snapshots, home / "rows")
    added = pq.read_table(home / "rows" / "added.parquet")
    projection.bring_up_to_date(home, snapshots, progress=ignore)
    with Graph.open(home) as graph:
        rows = [projection.claim_parameters(row) for row in added.to_pylist()]
        text, place = write_query("added"), {"date": snapshots[1].date, "step": "added", "written": 0}
        # Replaying what is there already writes nothing new, but finds and sets all of it: the two do the same work.
        batched = min(timed(lambda: graph.write(text, place | {"rows": rows})) for _ in range(3))
        single = timed(lambda: [graph.write(text, place | {"rows": [row]}) for row in rows])
        print(
            f"delta: {len(rows):,} claims in {batched:.2f} s as one batch, {single:.2f} s one by one: "
            f"ratio {single / batched:.1f}"
        )
        window = {"from": snapshots[0].date, "to": snapshots[1].date}
        query = read_query("changed_edges").text
        scan = re.sub(r"USING INDEX SEEK c:CLAIM\(\w+\) WHERE c\.(\w+) >", r"WHERE 0 + c.\1 >", query)
        scan = re.sub(r"AND c\.(\w+) <= \$to\n", r"AND 0 + c.\1 <= $to\n", scan)
        found = graph.table(query, window)
        assert found.equals(graph.table(scan, window))
        by_index = min(timed(lambda: graph.table(query, window)) for _ in range(3))
        by_scan = min(timed(lambda: graph.table(scan, window)) for _ in range(3))
        print(
            f"changed_edges: {found.num_rows:,} rows in {by_index:.2f} s by index, {by_scan:.2f} s by scan of all "
            f"claims: ratio {by_scan / by_index:.1f}"
        )


if __name__ == "__main__":
    main()
