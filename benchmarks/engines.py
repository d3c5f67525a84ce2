"""CPU seconds of both engines for each question of an export, client and server together.

    python benchmarks/engines.py --statements 250000 1000000

Generates dumps of each size at two dates (generated_dumps.py), loads them, and queries both engines; the graph after
--warm-up rounds. For each question it prints the CPU seconds of both, their ratio, and whether the rows are equal. With
--home, the first two snapshots of an existing home are queried instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from generated_dumps import DATES, write_dumps
from graph_costs import Meter

from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.state import open_finished
from kgedit.store.snapshots import list_snapshots
from kgedit.store.window import Window
from kgedit.timesteps.changes import BOUNDS
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.engines.graph import GraphEngine
from kgedit.timesteps.engines.store import StoreEngine

Question = Callable[[Engine, Window], pa.Table]

_EDITS = """
    SELECT subject || ':' || property AS case_id, subject, property FROM changed
    WHERE item_valued AND subject_in_old AND subject_in_new AND len(new_objects) = 1 AND len(old_objects) <= 1
    ORDER BY subject, property
"""


_SUBJECTS, _DOCUMENTS = 20, 10_000
"""Numbers of subjects whose nearest entities are computed, and of items that each is compared with."""


def questions(window: Window) -> dict[str, Question]:
    """Questions of an export about the changes of this window."""
    changed = pa.concat_tables(StoreEngine().changed_edges(window))
    edits = window.select(_EDITS, changed=changed)
    print(f"{changed.num_rows:,} changed edges, {edits.num_rows:,} edits", file=sys.stderr)
    store = StoreEngine()
    subjects = window.select(
        "SELECT DISTINCT subject AS id FROM changed ORDER BY md5(subject) LIMIT $few",
        {"few": _SUBJECTS},
        changed=store.changed_statements(window),
    )
    documents = window.select(
        "SELECT id FROM old_entities WHERE kind = 'item' ORDER BY md5(id) LIMIT $some", {"some": _DOCUMENTS}
    )
    print(f"{subjects.num_rows:,} subjects, {documents.num_rows:,} documents", file=sys.stderr)
    return {
        "changed edges": lambda engine, window: pa.concat_tables(engine.changed_edges(window)),
        "changed statements": lambda engine, window: engine.changed_statements(window),
        "two hops": lambda engine, window: engine.two_hops(window),
        "functional by data": lambda engine, window: engine.functional_by_data(
            window, changed, min_subjects=BOUNDS.subjects
        ),
        "functional by constraint": lambda engine, window: engine.functional_by_constraint(window),
        "similar subjects": lambda engine, window: _similar(engine, window, edits),
        f"nearest entities of {_SUBJECTS}": lambda engine, window: pa.concat_tables(
            engine.nearest_entities(window, subjects, documents, n=500)
        ),
    }


def _similar(engine: Engine, window: Window, edits: pa.Table) -> pa.Table:
    found = engine.similar_subjects(window, edits, max_df=500, k=10, pool=1000)
    return pa.concat_tables([*found.similar, found.static], promote_options="default")


def measure(home: Path, *, warm_up: int) -> None:
    """Print one line per question."""
    old, new = list_snapshots(home)[:2]
    meter = Meter(home)
    print(f"{'processor s (wall s)':<28}{'graph':>18}{'store':>18}{'ratio':>8}  equal rows")
    with open_finished(home) as graph, Window(old, new, spill=home / "spill") as window:
        engines = GraphEngine(graph), StoreEngine()
        for name, ask in questions(window).items():
            answers = []
            for engine in engines:
                for _ in range(warm_up if engine.name == "graph" else 1):
                    ask(engine, window)
                with meter.measure(f"{engine.name}: {name}"):
                    answers.append(ask(engine, window))
            costs = [meter.costs[f"{engine.name}: {name}"][-1] for engine in engines]
            cells = "".join(f"{f'{cost.processor:,.2f} ({cost.wall:,.2f})':>18}" for cost in costs)
            ratio = costs[0].processor / max(costs[1].processor, 0.01)
            print(f"{name:<28}{cells}{ratio:>8.1f}  {'yes' if answers[0].equals(answers[1]) else 'NO'}", flush=True)


def make_home(folder: Path, statements: int) -> Path:
    """Create a home with both snapshots in store and graph."""
    write_dumps(folder / "dumps", statements=statements, seed=0)
    home = folder / "home"
    kgedit = [sys.executable, "-m", "kgedit"]
    environment = os.environ | {"KGEDIT_HOME": str(home)}
    for day in DATES[:2]:
        dump, redirects = folder / "dumps" / f"{day:%Y%m%d}.json.zst", folder / "dumps" / "redirects.tsv"
        load = ["load-dump", dump, "--date", f"{day}", "--redirects", redirects, "--no-graph"]
        subprocess.run([*kgedit, *load], env=environment, check=True)
    subprocess.run([*kgedit, "graph", "rebuild"], env=environment, check=True)
    return home


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--statements", type=int, nargs="+", default=[250_000])
    arguments.add_argument("--home", type=Path, help="A home with two snapshots and their graph.")
    arguments.add_argument("--warm-up", type=int, default=3)
    given = arguments.parse_args()
    if given.home:
        measure(given.home, warm_up=given.warm_up)
        return
    for statements in given.statements:
        with tempfile.TemporaryDirectory() as folder:
            home = make_home(Path(folder), statements)
            print(f"{statements:,} statements")
            try:
                measure(home, warm_up=given.warm_up)
            finally:
                ManagedServer(home).stop()


if __name__ == "__main__":
    main()
