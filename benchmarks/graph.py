"""Scaling of the graph: costs of load, delta, queries, locality, export and disk at several sizes.

    python benchmarks/graph.py --statements 250000 1000000 4000000 [--json FILE] [--data FOLDER]

Generates dumps of each size (see generated_dumps.py), loads two snapshots into a home with its own server, and prints
for each figure the CPU seconds of the whole job, client and server together, the wall-clock seconds, and the growth of
the CPU seconds: the exponent between one size and the next, which is 1 if twice the statements take twice as long.
DuckDB answers the same queries from the store in the same run. With --data, the dumps and the store are kept there, and
existing dumps are reused.

The imported kgedit is measured: PYTHONPATH=CHECKOUT measures another version. If its function for a delta has another
name, pass --compute; --show prints the files of several runs as one table.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import graph_baseline
import pyarrow as pa
from generated_dumps import DATES, write_dumps
from graph_costs import Cost, Meter, peak_memory
from kgedit.loaders.wikidata_json import JsonParser

import kgedit
from kgedit.graph.connection import Graph
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.projection import bring_up_to_date
from kgedit.graph.queries import read_query
from kgedit.store.builds import Load
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import list_snapshots
from kgedit.store.sources import DumpFile
from kgedit.timesteps.engines.graph import GraphEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep

OLD, NEW = DATES[:2]
QUERIES = ("changed_edges", "two_hop_changes")
WARM_UPS, REPEATS = 3, 3
COMPUTE = "kgedit.store.delta:write_delta,kgedit.store.versions:write_delta"
VERIFY = "kgedit.graph.projection:_verify"
LOCALITY = "kgedit.timesteps.export:find_locality"

Figures = dict[str, Cost]
Facts = dict[str, Any]
"""Counts and sizes of one run, to verify that two runs produced the same results."""


def measure(
    folder: Path, statements: int, *, seed: int, compute: str, keep_graph: bool, evidence: bool
) -> tuple[Figures, Facts]:
    """Measure all figures of one size.

    Args:
        folder: Folder with the dumps in ``dumps``, generated if missing; the home in ``home`` is recreated.
        statements: Number of statements in the older snapshot.
        seed: Seed of the dumps.
        compute: Function that computes a delta, as "module:name".
        keep_graph: Whether to keep the home's Neo4j folder.
        evidence: Whether the graph contains versions of statements in addition to facts.
    """
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    dumps = [folder / "dumps" / f"{day:%Y%m%d}.json.zst" for day in (OLD, NEW)]
    if not all(path.is_file() for path in dumps):
        _say(f"{statements:,} statements: writing dumps")
        write_dumps(folder / "dumps", statements=statements, seed=seed)
    meter, facts = Meter(home), Facts(statements=statements)
    try:
        _load(meter, dumps)
        _fill(meter, compute, evidence=evidence)
        _ask(meter, facts)
        exported = _export_apart(home)
        facts |= exported.pop("facts") | _edges(home)
        ManagedServer(home).stop()
        facts |= _bytes(home, facts)
    finally:
        ManagedServer(home).stop()
        if not keep_graph:
            shutil.rmtree(home / "neo4j", ignore_errors=True)
    return _figures(meter) | {name: Cost(**cost) for name, cost in exported.items()}, facts


def _load(meter: Meter, dumps: list[Path]) -> None:
    for path, day, name in zip(dumps, (OLD, NEW), ("older", "newer"), strict=True):
        _say(f"loading the {name} snapshot into the store")
        source = DumpFile(path)
        with meter.measure(f"store: load the {name} snapshot"):
            ingest(meter.home, _job(path, day), source, workers=2, overwrite=False)


def _job(path: Path, day: date) -> Load:
    return Load(
        date=day,
        loader="wikidata_json",
        loader_version=JsonParser.version,
        make_loader=partial(JsonParser, LoaderOptions()),
        options={"languages": ["en", "mul"], "wiki": "enwiki"},
        limit=None,
        redirects=path.with_name("redirects.tsv"),
        bad_lines=JsonParser.bad_lines,
        bad_statements=JsonParser.bad_statements,
        max_error_rate=0.0,
        notes=JsonParser.notes,
    )


def _fill(meter: Meter, compute: str, *, evidence: bool) -> None:
    """Load the first snapshot by bulk import, including server start, and the second as a delta."""
    snapshots = list_snapshots(meter.home)
    scope: dict[str, Any] = {}
    if not evidence:
        from kgedit.store.scope import Scope  # missing in earlier checkouts

        scope = {"scope": Scope(evidence=False)}
    _say("bulk import")
    with meter.measure("graph: bulk import of the older snapshot"):
        bring_up_to_date(meter.home, snapshots[:1], **scope)
    _say("delta")
    with meter.calls_of(compute, "delta: compute"), meter.calls_of(VERIFY, "verify"), meter.measure("delta: all"):
        bring_up_to_date(meter.home, snapshots)


def _ask(meter: Meter, facts: Facts) -> None:
    """Both queries on a warm server, and DuckDB's answers to them."""
    old, new = list_snapshots(meter.home)
    with Graph.open(meter.home) as graph:
        for name in QUERIES:
            _say(name)
            query = read_query(name)
            bound = query.bind({"from": str(OLD), "to": str(NEW)})
            found = _repeat(meter, name, partial(graph.table, query.text, bound))
            expected = _repeat(meter, f"DuckDB: {name}", partial(getattr(graph_baseline, name), old, new))
            facts[f"rows of {name}"] = found.num_rows
            facts[f"{name} equal to DuckDB's"] = graph_baseline.same_rows(found, expected)


def _repeat(meter: Meter, name: str, work: Callable[[], pa.Table]) -> pa.Table:
    for _ in range(WARM_UPS):
        found = work()
    for _ in range(REPEATS):
        with meter.measure(name):
            work()
    return found


def _export_apart(home: Path) -> dict[str, Any]:
    """Export in a separate process, so that its peak memory can be measured."""
    _say("export")
    command = [sys.executable, str(Path(__file__).resolve()), "--export-of", str(home)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(f"The export failed:\n{answer.stderr}")
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def _export(home: Path) -> None:
    """Body of that process: export, then print costs and counts as one line of JSON."""
    meter, folder = Meter(home), home / "timesteps"
    old, new = list_snapshots(home)
    with Graph.open(home) as graph, meter.calls_of(LOCALITY, "export: locality"), meter.measure("export: all"):
        export_timestep(GraphEngine(graph), old, new, folder, settings=WikiBigEditSettings())
    manifest = json.loads((folder / "timestep.json").read_text(encoding="utf-8"))
    facts = {name: manifest.get(name) for name in ("funnel", "cases", "locality", "two_hops")}
    costs = {name: asdict(meter.total(name)) for name in meter.costs}
    print(json.dumps(costs | {"facts": facts | {"export: peak memory in bytes": peak_memory()}}))


def _edges(home: Path) -> Facts:
    """Counts available from the server's statistics."""
    with Graph.open(home) as graph:
        counts = {
            "edges": "()-[r]->()",
            "CLAIM edges": "()-[r:CLAIM]->()",
            "FACT edges": "()-[r:FACT]->()",
            "nodes": "(r)",
        }
        return {name: graph.rows(f"MATCH {what} RETURN count(r) AS n")[0]["n"] for name, what in counts.items()}


def _bytes(home: Path, facts: Facts) -> Facts:
    """Size of the stopped server's database, without its transaction log."""
    files = (home / "neo4j" / "data" / "databases" / "neo4j").rglob("*")
    size = sum(path.stat().st_size for path in files if path.is_file())
    return {"bytes on disk": size, "bytes per edge": round(size / facts["edges"], 1)}


def _figures(meter: Meter) -> Figures:
    whole, compute, verify = (meter.total(name) for name in ("delta: all", "delta: compute", "verify"))
    figures: Figures = {name: meter.total(name) for name in meter.costs if ": load" in name or ": bulk" in name}
    figures |= {"delta: compute": compute, "delta: write": whole - compute - verify, "delta: verify": verify}
    for name in QUERIES:
        figures |= {f"query: {name}": meter.median(name), f"DuckDB: {name}": meter.median(f"DuckDB: {name}")}
    return figures


def growth(smaller: tuple[int, float], larger: tuple[int, float]) -> float:
    """The exponent k in cost = c * size ** k between two (size, cost).

    >>> growth((10, 1.0), (100, 100.0))
    2.0
    """
    return math.log(larger[1] / smaller[1]) / math.log(larger[0] / smaller[0])


def as_table(runs: list[tuple[Figures, Facts]]) -> str:
    """Print one line for each figure, followed by one for each count."""
    sizes = [facts["statements"] for _, facts in runs]
    heads = "".join(f"{f'{size:,}':>22}" for size in sizes)
    lines = [f"{'processor s (wall s)':<42}{heads}   growth"]
    for name in runs[0][0]:
        costs = [figures[name] for figures, _ in runs]
        cells = "".join(f"{f'{cost.processor:,.2f} ({cost.wall:,.2f})':>22}" for cost in costs)
        lines.append(f"{name:<42}{cells}   {_exponents(sizes, [cost.processor for cost in costs])}")
    for name in runs[0][1]:
        values = [facts[name] for _, facts in runs]
        if isinstance(values[0], bool):
            lines.append(f"{name:<42}" + "".join(f"{'yes' if value else 'NO':>22}" for value in values))
        elif isinstance(values[0], int | float):
            cells = "".join(f"{f'{value:,}':>22}" for value in values)
            lines.append(f"{name:<42}{cells}   {_exponents(sizes, values)}")
    return "\n".join(lines)


def _exponents(sizes: list[int], values: list[float]) -> str:
    pairs = pairwise(zip(sizes, values, strict=True))
    return " ".join(f"{growth(small, large):.2f}" if small[1] > 0 and large[1] > 0 else "-" for small, large in pairs)


def as_json(runs: list[tuple[Figures, Facts]]) -> str:
    """All measurements, with the version of the code."""
    code = Path(kgedit.__file__).parent
    version = ["git", "-C", code, "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(version, capture_output=True, text=True, check=False)
    content = {
        "kgedit": kgedit.__version__,
        "commit": commit.stdout.strip() or None,
        "runs": [
            facts | {"seconds": {name: asdict(cost) for name, cost in figures.items()}} for figures, facts in runs
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def read_runs(paths: list[Path]) -> list[tuple[Figures, Facts]]:
    """Runs in files written by as_json, by size."""
    found = [run for path in paths for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]
    found.sort(key=lambda run: run["statements"])
    return [({name: Cost(**cost) for name, cost in run.pop("seconds").items()}, run) for run in found]


def _say(text: str) -> None:
    print(f"  {text} ...", file=sys.stderr, flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--statements", type=int, nargs="+", default=[250_000, 1_000_000])
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--json", type=Path, help="Write the figures here as well, after each size.")
    arguments.add_argument("--data", type=Path, help="Folder for dumps and stores, kept; default: a temporary one.")
    arguments.add_argument(
        "--compute", default=COMPUTE, help="Function that computes a delta, module:name; commas between."
    )
    arguments.add_argument("--no-evidence", action="store_true", help="Measure a graph of facts alone.")
    arguments.add_argument("--keep-graph", action="store_true", help="Keep Neo4j's folders in --data.")
    arguments.add_argument("--show", type=Path, nargs="+", help="Measure nothing; print what these files hold.")
    arguments.add_argument("--export-of", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.export_of:
        _export(given.export_of)
    elif given.show:
        print(as_table(read_runs(given.show)))
    else:
        _measure_all(given)


def _measure_all(given: argparse.Namespace) -> None:
    _say(f"measuring {Path(kgedit.__file__).parent}")
    runs = []
    with tempfile.TemporaryDirectory() as aside:
        for statements in sorted(given.statements):
            folder = (given.data or Path(aside)) / str(statements)
            _say(f"{statements:,} statements in {folder}")
            runs.append(
                measure(
                    folder,
                    statements,
                    seed=given.seed,
                    compute=given.compute,
                    keep_graph=given.keep_graph,
                    evidence=not given.no_evidence,
                )
            )
            if given.json:
                given.json.write_text(as_json(runs), encoding="utf-8")
    print(as_table(runs))


if __name__ == "__main__":
    main()
