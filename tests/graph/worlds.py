"""Snapshot streams that the graph tests load: the sample world always, real slices where the shared data is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner

from kgedit.cli import main
from kgedit.graph.connection import Graph
from kgedit.sample.generate import write_world
from kgedit.store.snapshots import list_snapshots
from kgedit.store.versions import CLAIM_COLUMNS, TERM_COLUMNS, connect

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SLICES = {
    "pat": ("2021-12-30", "2023-12-30", "2024-03-31"),
    "w12k": ("2005-01-01", "2010-01-01", "2014-01-01"),
}


def dumps(world: str, folder: Path) -> list[tuple[Path, str]]:
    """Dump files of a world with their dates, oldest first; the sample world is written into the folder."""
    if world == "sample":
        paths = sorted(path for path in write_world(folder) if path.name[:8].isdigit())
        return [(path, f"{path.name[:4]}-{path.name[4:6]}-{path.name[6:8]}") for path in paths]
    return [(SHARED / "slices" / world / f"{date.replace('-', '')}.json.gz", date) for date in SLICES[world]]


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


def content(graph: Graph) -> dict[str, list[tuple[object, ...]]]:
    """Everything that the graph holds, comparable."""
    terms = graph.rows("MATCH (t:Term) RETURN properties(t) AS p ORDER BY t.id")
    claims = graph.rows(
        "MATCH (s:Term)-[c:CLAIM]->(o:Term) RETURN properties(c) AS p, s.id AS subject, o.id AS object "
        "ORDER BY c.version_id"
    )
    return {
        "terms": [tuple(row["p"].get(name) for name in TERM_COLUMNS) for row in terms],
        "claims": [
            tuple((row["p"] | {"subject": row["subject"], "object": row["object"]}).get(name) for name in CLAIM_COLUMNS)
            for row in claims
        ],
    }


def expected_content(home: Path) -> dict[str, list[tuple[object, ...]]]:
    """What the graph must hold by the store's definition of versions and terms."""
    connection = connect(list_snapshots(home))
    terms = connection.execute(f"SELECT {', '.join(TERM_COLUMNS)} FROM terms ORDER BY id").fetchall()
    claims = connection.execute(f"SELECT {', '.join(CLAIM_COLUMNS)} FROM versions ORDER BY version_id").fetchall()
    connection.close()
    return {"terms": terms, "claims": claims}
