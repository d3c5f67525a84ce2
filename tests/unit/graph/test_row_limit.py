"""How many rows of a user's own query are read, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from kgedit.cli import main
from kgedit.graph.bolt import Address
from kgedit.graph.connection import Graph


class Rows:
    """A result of the driver that counts what is read of it."""

    def __init__(self) -> None:
        self.read = 0

    def __iter__(self) -> Iterator[SimpleNamespace]:
        for number in range(100):
            self.read += 1
            yield SimpleNamespace(data=lambda number=number: {"n": number})

    def fetch(self, count: int) -> list[SimpleNamespace]:
        rows = iter(self)
        return [next(rows) for _ in range(count)]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    found = Rows()

    @contextmanager
    def read(*_: object) -> Iterator[Rows]:
        yield found

    monkeypatch.setattr(Graph, "_read", read)
    monkeypatch.setattr(Graph, "_refuse_all_but_reading", lambda *_: None)
    return found


def test_reading_stops_at_the_limit(rows: Rows) -> None:
    with Graph(Address("bolt://127.0.0.1:1", "neo4j", "")) as graph:
        assert graph.read_only_query("RETURN 1", timeout=1, limit=3) == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert rows.read == 3
        assert len(graph.read_only_query("RETURN 1", timeout=1)) == 100


def test_the_command_prints_no_more_rows_than_its_limit(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph(Address("bolt://127.0.0.1:1", "neo4j", ""))
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))
    monkeypatch.setattr(Graph, "open", staticmethod(lambda home: graph))
    monkeypatch.setattr("kgedit.graph.state._is_finished", lambda _graph: True)
    ran = CliRunner().invoke(main, ["query", "--cypher", "RETURN 1 AS n", "--limit", "2", "--format", "csv"])
    assert ran.stdout == "n\n0\n1\n", ran.output
