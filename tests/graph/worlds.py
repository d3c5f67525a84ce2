"""Snapshot streams that the graph tests load: two made worlds always, real slices where the shared data is."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import zstandard
from click.testing import CliRunner
from generated_dumps import write_dumps
from world.shared_data import SHARED

from kgedit.cli import main
from kgedit.graph.connection import Graph
from kgedit.sample.generate import write_world
from kgedit.store.scope import Scope
from kgedit.store.snapshots import list_snapshots
from kgedit.store.timeline import CLAIM_COLUMNS, FACT_COLUMNS, REDIRECT_COLUMNS, TERM_COLUMNS, open_timeline

SLICES = {
    "pat": ("2021-12-30", "2023-12-30", "2024-03-31"),
    "w12k": ("2005-01-01", "2010-01-01", "2014-01-01"),
}


GENERATED_STATEMENTS = 30_000


def dumps(world: str, folder: Path) -> list[tuple[Path, str]]:
    """Dump files of a world with their dates, oldest first; all but the slices are written into the folder."""
    if world in ("sample", "generated"):
        written = (
            write_world(folder)
            if world == "sample"
            else write_dumps(folder, statements=GENERATED_STATEMENTS, seed=1, dates=3)
        )
        paths = sorted(path for path in written if path.name[:8].isdigit())
        if world == "generated":
            add_constraint_that_ends(paths[0])
        return [(path, f"{path.name[:4]}-{path.name[4:6]}-{path.name[6:8]}") for path in paths]
    return [(SHARED / "slices" / world / f"{date.replace('-', '')}.json.gz", date) for date in SLICES[world]]


def add_constraint_that_ends(dump: Path) -> None:
    """Give a property of the oldest dump a constraint that later dumps lack; generated properties never change."""
    with zstandard.open(dump, "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")
    properties = {n: json.loads(line.rstrip(",")) for n, line in enumerate(lines) if '"type":"property"' in line}
    donor = next(described for described in properties.values() if "P2302" in described["claims"])
    place, receiver = next((n, described) for n, described in properties.items() if not described["claims"])
    claims = json.dumps(donor["claims"], separators=(",", ":")).replace(f"{donor['id']}$", f"{receiver['id']}$")
    lines[place] = lines[place].replace('"claims":[]', f'"claims":{claims}')
    with zstandard.open(dump, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))


def kgedit(home: Path, *arguments: str | Path) -> str:
    """Run a command as a user would, in this process, and return what it wrote to stdout."""
    result = CliRunner().invoke(
        main, [str(argument) for argument in arguments], env=dict(os.environ, KGEDIT_HOME=str(home))
    )
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return result.stdout


def load_all(home: Path, files: Sequence[tuple[Path, str]]) -> None:
    """Load each dump in turn, with the redirects beside it if there are any."""
    for path, date in files:
        kgedit(home, *load_command(path, date))


def load_command(path: Path, date: str) -> list[str | Path]:
    redirects = path.with_name("redirects.tsv")
    return ["load-dump", path, "--date", date, *(["--redirects", redirects] if redirects.is_file() else [])]


NODE_COLUMNS = tuple(name for name in TERM_COLUMNS if name != "kind")
EDGES = {"FACT": FACT_COLUMNS, "CLAIM": CLAIM_COLUMNS, "REDIRECT": REDIRECT_COLUMNS}
ENDS = {"REDIRECT": ("source", "target")}


def content(graph: Graph) -> dict[str, list[tuple[object, ...]]]:
    """Everything that the graph holds, comparable."""
    terms = graph.rows("MATCH (t:Term) RETURN properties(t) AS p, labels(t) AS labels")
    held: dict[str, list[tuple[object, ...]]] = {
        "Term": [(*(row["p"].get(name) for name in NODE_COLUMNS), *sorted(row["labels"])) for row in terms],
        "Snapshot": [
            (row["p"]["date"], row["p"]["state"], row["p"]["facts"], row["p"]["items"])
            for row in graph.rows("MATCH (s:Snapshot) RETURN properties(s) AS p")
            if "facts" in row["p"]
        ],
        "Load": [tuple(row.values()) for row in graph.rows("MATCH (l:Load) RETURN l.id")],
    }
    for kind, columns in EDGES.items():
        start, end = ENDS.get(kind, ("subject", "object"))
        query = f"MATCH (s)-[e:{kind}]->(o) RETURN properties(e) AS p, s.id AS start, o.id AS end"
        held[kind] = [
            tuple((row["p"] | {start: row["start"], end: row["end"]}).get(name) for name in columns)
            for row in graph.rows(query)
        ]
    return {name: sorted(rows, key=repr) for name, rows in held.items()}


def expected_content(home: Path, scope: Scope | None = None) -> dict[str, list[tuple[object, ...]]]:
    """What the graph must hold by the store's definition."""
    snapshots, scope = list_snapshots(home), scope or Scope()
    labels = {"item": "Item", "property": "Property", "value": "Value"}
    with open_timeline(snapshots, scope, spill=home / "spill") as connection:
        views = {"FACT": "facts", "CLAIM": "claims", "REDIRECT": "redirects"}
        held = {
            kind: connection.execute(f"SELECT {', '.join(EDGES[kind])} FROM whole_{view}").fetchall()
            for kind, view in views.items()
            if scope.evidence or kind != "CLAIM"
        }
        merged = {row[0] for row in held["REDIRECT"]}
        rows = connection.execute(f"SELECT kind, {', '.join(NODE_COLUMNS)} FROM whole_terms").fetchall()
        held["Term"] = [
            (*row, *sorted({"Term", labels.get(kind, "Term")} | ({"Merged"} if row[0] in merged else set())))
            for kind, *row in rows
        ]
        count = "SELECT (SELECT count(*) FROM fact_{0}), (SELECT count(*) FROM entity_{0} WHERE kind = 'item')"
        held["Snapshot"] = [
            (snapshot.date, "complete", *connection.execute(count.format(k)).fetchall()[0])
            for k, snapshot in enumerate(snapshots)
        ]
    return {"Load": [], "CLAIM": []} | {name: sorted(rows, key=repr) for name, rows in held.items()}
