"""Response times of `kgedit explore`, compared with the same queries on the store's files without its indexes.

python benchmarks/generated_dumps.py dumps --statements 4000000 --dates 3
kgedit load-dump ... (each of them, --no-graph)
python benchmarks/explore.py --home HOME

Each request is sent to the application like a browser's, including JSON, alternating with its naive form. Wall time is
the user's waiting time; CPU time is the cost on a shared machine.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from starlette.testclient import TestClient

from kgedit.pages.explorer import Explorer
from kgedit.pages.explorer.exports import ExportTask
from kgedit.pages.explorer.server import explore_app
from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot

Question = Callable[[], None]

RELATION = "P6"
"""One of the changing relations of generated dumps."""

_HOST, _TOKEN = "127.0.0.1:8000", "token"


@dataclass
class Times:
    """Seconds of several runs of one request."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Measure one run."""
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)

    def said(self) -> str:
        """Median and maximum in milliseconds, wall and CPU."""
        return "".join(
            f" {1000 * statistics.median(one):>8,.0f}{1000 * max(one):>9,.0f}" for one in (self.wall, self.processor)
        )


class Naive:
    """The same requests without an index: DuckDB over the whole files of the snapshots."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots, self._connection = snapshots, duckdb.connect()

    def search(self, text: str) -> None:
        """Labels and aliases that contain the text, ordered by the number of facts of their items."""
        newest = self._snapshots[-1]
        self._connection.execute(
            f"""
            WITH found AS (
                SELECT id, label, description FROM {literal(newest.entities)}
                WHERE label ILIKE '%' || $text || '%' OR array_to_string(aliases, ' ') ILIKE '%' || $text || '%'
            ), popular AS (
                SELECT id, count(*) AS popularity
                FROM (SELECT subject AS id FROM {literal(newest.facts)} UNION ALL
                      SELECT object FROM {literal(newest.facts)}) SEMI JOIN found USING (id) GROUP BY id
            )
            SELECT * FROM found LEFT JOIN popular USING (id) ORDER BY popularity DESC NULLS LAST, id LIMIT 20
            """,
            {"text": text},
        ).fetchall()

    def history(self, item: str) -> None:
        """All statements and facts of an item in all snapshots."""
        for snapshot in self._snapshots:
            for file, column in ((snapshot.entities, "id"), (snapshot.claims, "subject"), (snapshot.facts, "subject")):
                self._connection.execute(
                    f"SELECT * FROM {literal(file)} WHERE {column} = $item", {"item": item}
                ).fetchall()

    def changes(self, old: Snapshot, new: Snapshot, relation: str | None) -> None:
        """Subjects and properties whose objects differ: counts by property, and thirty with labels."""
        condition = "true" if relation is None else f"property = '{relation}'"
        self._connection.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE changed AS
            WITH o AS (SELECT subject, property, list(object ORDER BY object) AS old_objects
                       FROM {literal(old.facts)} WHERE {condition} GROUP BY ALL),
                 n AS (SELECT subject, property, list(object ORDER BY object) AS new_objects
                       FROM {literal(new.facts)} WHERE {condition} GROUP BY ALL)
            SELECT * FROM o FULL JOIN n USING (subject, property) WHERE old_objects IS DISTINCT FROM new_objects
            """
        )
        self._connection.execute("SELECT property, count(*) FROM changed GROUP BY ALL").fetchall()
        self._connection.execute(
            f"""
            SELECT c.*, s.label FROM (FROM changed ORDER BY subject, property LIMIT 30) c
            LEFT JOIN {literal(new.entities)} s ON s.id = subject
            """
        ).fetchall()


def measure(home: Path, *, runs: int, seed: int) -> None:
    """Run the requests, and print."""
    made: list[str] = []
    start = Times()
    with start.taken():
        explorer = Explorer(home, announce=made.append)
    _tell_sizes(explorer, start, made)
    terms = explorer.table("FROM term WHERE kind = 'item' AND label IS NOT NULL ORDER BY popularity DESC LIMIT 20000")
    chosen = random.Random(seed).sample(terms.select(["id", "label"]).to_pylist(), runs)
    labels, items = [term["label"] for term in chosen], [term["id"] for term in chosen]
    naive = Naive(explorer.snapshots)
    app = explore_app(explorer, _no_export, hosts=[_HOST], token=_TOKEN, browser="http://localhost:7474/browser/")
    with TestClient(app, base_url=f"http://{_HOST}") as client:

        def ask(path: str, **query: Any) -> None:
            answered = client.get(f"/{_TOKEN}/api/{path}", params=query)
            assert answered.status_code == 200, answered.text

        def compare(title: str, path: str, queries: Sequence[dict[str, Any]], slow: Sequence[Question] = ()) -> None:
            _compare(title, [partial(ask, path.format(**query), **query) for query in queries], slow)

        for title, texts in (
            ("search, one letter", [label[0] for label in labels]),
            ("search, three letters", [label[:3] for label in labels]),
            ("search, whole name", labels),
        ):
            compare(
                title, "search", [{"q": text} for text in texts], [partial(naive.search, text) for text in texts[:2]]
            )
        compare(
            "history of an item",
            "items/{item}",
            [{"item": item} for item in items],
            [partial(naive.history, item) for item in items[:2]],
        )
        snapshots = explorer.snapshots
        for old, new in [*pairwise(snapshots), *([(snapshots[0], snapshots[-1])] if len(snapshots) > 2 else [])]:
            dates = {"from": old.date, "to": new.date}
            again, is_first = [dates] * runs, (old, new) == snapshots[:2]  # the naive form takes minutes
            slow = [[partial(naive.changes, old, new, relation)] if is_first else [] for relation in (None, RELATION)]
            compare(f"{old.name} to {new.name}, first time", "changes", [dates], slow[0])
            compare("  again", "changes", again)
            compare("  one relation", "changes", [each | {"relation": RELATION} for each in again], slow[1])
            compare("  part of a label", "changes", [dates | {"q": label[:5]} for label in labels])
            compare("  the 50th page", "changes", [each | {"offset": 1470} for each in again])


def _tell_sizes(explorer: Explorer, start: Times, made: Sequence[str]) -> None:
    derived = sum(one.file(name).stat().st_size for one in explorer.indexes.needed() for name in one.files)
    files = [path for one in explorer.snapshots for path in (one.claims, one.facts, one.entities)]
    facts = max(one.manifest["facts"] for one in explorer.snapshots)
    print(f"{len(explorer.snapshots)} snapshots of up to {facts:,} facts, {_mebibytes(*files):,.0f} MiB")
    print(f"derived files {derived / 2**20:,.0f} MiB; {len(made)} of {len(explorer.indexes.needed())} made; opened in")
    print(f"{start.wall[0]:.1f} s, {start.processor[0]:.1f} s of a processor")
    print(f"{'milliseconds':<38}{'wall':>18}{'processor':>18}{'naive: wall':>19}{'processor':>18}")
    print(f"{'':<38}" + f" {'median':>8}{'worst':>9}" * 4)


def _mebibytes(*files: Path) -> float:
    return sum(path.stat().st_size for path in files) / 2**20


def _no_export(_task: ExportTask) -> str:
    raise AssertionError("the benchmark only asks")


def _compare(title: str, ours: Sequence[Question], naive: Sequence[Question]) -> None:
    own, other = Times(), Times()
    for index, question in enumerate(ours):
        with own.taken():
            question()
        if index < len(naive):
            with other.taken():
                naive[index]()
    print(f"{title:<38}{own.said()}{other.said() if naive else ''}", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--home", type=Path, required=True, help="with two or more snapshots")
    arguments.add_argument("--runs", type=int, default=12, help="of each question")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    measure(given.home, runs=given.runs, seed=given.seed)


if __name__ == "__main__":
    main()
