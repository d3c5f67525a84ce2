"""`kgedit browse --print`, on a graph that answers with its address and two snapshots."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner, Result

from kgedit.cli import main
from kgedit.graph.bolt import Address

PAGE = "http://127.0.0.1:8/browser/"
SNAPSHOTS = [20210104, 20230227]


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The graph without a server; `address` can be replaced."""
    address = Address("bolt://127.0.0.1:7", "neo4j", "secret", browser_url=PAGE)
    graph = SimpleNamespace(address=address, items=["Q183"], changed=["Q33"])

    class Opened:
        address = property(lambda _: graph.address)

        def __enter__(self) -> Opened:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def snapshot_dates(self) -> list[int]:
            return SNAPSHOTS

        def rows(self, cypher: str, parameters: dict[str, str]) -> list[dict[str, str]]:
            assert "(i:Item {id: $item})" in cypher
            return [{"id": item} for item in graph.items if item == parameters["item"]]

        def read_only_query(self, cypher: str, parameters: dict[str, int], *, timeout: float) -> list[dict[str, str]]:
            assert parameters == {"from": 20210104, "to": 20230227, "most": 15}
            return [{"id": item} for item in graph.changed]

    def open_(home: Path) -> Opened:
        return Opened()

    monkeypatch.setattr("kgedit.graph.state.open_finished", open_)
    return graph


def browse(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["browse", "--print", *arguments])


def query_of(ran: Result) -> str:
    assert ran.exit_code == 0, ran.output
    page = ran.stdout.strip()
    assert page.startswith(PAGE)
    asked = parse_qs(urlsplit(page).query)
    assert asked["cmd"] == ["edit"]
    return asked["arg"][0]


def test_without_an_item_browser_shows_what_changed_around_one_with_many_changes() -> None:
    query = query_of(browse())
    assert "{id: 'Q33'}" in query
    assert "20210104 < f.since <= 20230227" in query


def test_without_a_changed_item_browser_opens_without_a_query(opened: SimpleNamespace) -> None:
    opened.changed = []
    ran = browse()
    assert ran.stdout == f"{PAGE}?dbms=bolt://neo4j@127.0.0.1:7\n"
    assert "secret" not in ran.output


def test_an_item_alone_shows_its_facts() -> None:
    assert "(item:Item {id: 'Q183'})" in query_of(browse("--item", "Q183"))


def test_an_item_with_two_dates_shows_what_changed_between_them() -> None:
    query = query_of(browse("--item", "Q183", "--from", "2021-01-04", "--to", "2023-02-27"))
    assert "20210104 < f.since <= 20230227" in query
    assert "$" not in query


@pytest.mark.parametrize(
    "arguments",
    [
        ("--item", "Q183", "--from", "2021-01-04"),
        ("--item", "Q183", "--to", "2023-02-27"),
        ("--from", "2021-01-04", "--to", "2023-02-27"),
    ],
)
def test_half_a_window_or_one_without_an_item_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    ran = browse(*arguments)
    assert ran.exit_code == 2, ran.output
    assert "Give --from and --to together, and with --item." in ran.stderr


def test_a_date_without_a_snapshot_is_refused_with_the_list_of_snapshots() -> None:
    ran = browse("--item", "Q183", "--from", "2022-01-01", "--to", "2023-02-27")
    assert ran.exit_code == 1
    assert "no snapshot of 2022-01-01 (loaded: 2021-01-04, 2023-02-27)" in ran.stderr
    assert not ran.stdout


@pytest.mark.parametrize("older", ["2023-02-27", "2021-01-04"])
def test_a_window_must_go_forward(older: str) -> None:
    ran = browse("--item", "Q183", "--from", older, "--to", "2021-01-04")
    assert ran.exit_code == 1
    assert "is not before" in ran.stderr


def test_a_name_is_not_taken_for_an_id() -> None:
    ran = browse("--item", "Germany")
    assert ran.exit_code == 1
    assert "give an id such as Q30" in ran.stderr


def test_a_server_whose_browser_is_not_known_is_named(opened: SimpleNamespace) -> None:
    opened.address = Address("bolt://elsewhere:7687", "neo4j", "secret")
    ran = browse("--item", "Q183")
    assert ran.exit_code == 1
    assert "knows no Browser for bolt://elsewhere:7687" in ran.stderr


def test_an_item_that_the_graph_does_not_hold_is_named_and_how_to_find_one() -> None:
    ran = browse("--item", "Q999999999")
    assert ran.exit_code == 1
    assert ran.stderr == "Error: The graph contains no item Q999999999. Find one by its name: kgedit find NAME\n"
    assert not ran.stdout
