"""The fetching commands request what their options say, and print the next command."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import rdflib
from click.testing import CliRunner, Result
from world.dumps import entity
from world.endpoints import Answer, query_in, serving
from world.two_days import about

from kgedit.cli import main
from kgedit.timesteps.kinds.snapshot_tables import MAX_DEPTH
from kgedit.verbs.fetch import MOST_STEPS


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
    def row(predicate: str, value: dict[str, str]) -> dict[str, dict[str, str]]:
        item = {"type": "uri", "value": "http://www.wikidata.org/entity/Q1"}
        return {"item": item, "s": item, "p": {"type": "uri", "value": predicate}, "o": value}

    rows = [row("http://www.w3.org/2000/01/rdf-schema#label", {"type": "literal", "value": "one", "xml:lang": "en"})]
    return 200, {}, json.dumps({"results": {"bindings": rows}}).encode()


@pytest.mark.slow
def test_a_slice_of_a_list_is_fetched_and_the_next_command_is_told(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("# towns\nQ1\tone\nQ2\n\n", encoding="utf-8")
    with serving(answer) as endpoint:
        result = run("fetch-slice", tmp_path / "s.nt", "--items", tmp_path / "ids.txt", "--endpoint", endpoint.address)
    assert result.exit_code == 0, result.output
    assert "1 entities" in result.stderr
    assert "not found: 1 (Q2)" in result.stderr
    assert "kgedit load-dump" in result.stderr
    assert '"one"@en' in (tmp_path / "s.nt").read_text(encoding="utf-8")


QUERY = """\ufeff# Countries
BASE <http://www.wikidata.org/entity/>
prefix wdt:<http://www.wikidata.org/prop/direct/> PREFIX ex: <http://example.org/#>
# An item is often in several classes.
SELECT ?item WHERE { ?item wdt:P31 <Q6256> } # all of them"""


@pytest.mark.slow
def test_a_query_may_have_declarations_and_comments(tmp_path: Path) -> None:
    asked: list[str] = []

    def recording(path: str, headers: dict[str, str], body: bytes) -> Answer:
        asked.append(query_in(body))
        return answer(path, headers, body)

    (tmp_path / "countries.rq").write_text(QUERY, encoding="utf-8")
    query = ("--query", tmp_path / "countries.rq")
    with serving(recording) as endpoint:
        result = run("fetch-slice", tmp_path / "s.nt", *query, "--endpoint", endpoint.address)
    assert result.exit_code == 0, result.output
    graph, wikidata = rdflib.Graph(), "http://www.wikidata.org"
    for name, value in (("Q1", "Q6256"), ("Q2", "Q5")):
        names = f"{wikidata}/entity/{name}", f"{wikidata}/prop/direct/P31", f"{wikidata}/entity/{value}"
        graph.add(tuple(map(rdflib.URIRef, names)))
    assert [str(row["item"]) for row in graph.query(asked[0])] == [f"{wikidata}/entity/Q1"]


def test_a_slice_of_nothing_named_is_refused(tmp_path: Path) -> None:
    result = run("fetch-slice", tmp_path / "s.nt")
    assert (result.exit_code, "Give exactly one of them" in result.stderr) == (1, True)
    (tmp_path / "ids.txt").write_text("# nothing\n", encoding="utf-8")
    assert "holds no ids" in run("fetch-slice", tmp_path / "s.nt", "--items", tmp_path / "ids.txt").stderr


@pytest.mark.parametrize("address", ["127.0.0.1:1/sparql", "ftp://127.0.0.1/", "file:///etc", "https://", ""])
@pytest.mark.parametrize(
    ("option", "command"),
    [("--endpoint", "fetch-slice s.nt --items"), ("--site", "fetch-items i.json --items"), ("--mirror", "fetch-dump")],
)
def test_what_is_no_web_address_is_refused_before_any_request(
    tmp_path: Path, option: str, command: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids.txt").write_text("Q1\n", encoding="utf-8")
    result = run(*command.split(), "ids.txt" if "--items" in command else "latest", option, address)
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {option} {address!r} is not a web address. It begins with https:// or http://.\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["ids.txt"]


@pytest.mark.parametrize(
    ("command", "name", "suffixes"),
    [
        ("fetch-items", "i.json.bz2", ".json or .json.gz"),
        ("fetch-items", "i.gz", ".json or .json.gz"),
        ("fetch-slice", "s.ttl", ".nt or .nt.gz"),
    ],
)
def test_a_file_of_another_format_is_refused_before_any_request(
    tmp_path: Path, command: str, name: str, suffixes: str
) -> None:
    (tmp_path / "ids.txt").write_text("Q1\n", encoding="utf-8")
    with serving(site) as server:
        option = "--site" if command == "fetch-items" else "--endpoint"
        result = run(command, tmp_path / name, "--items", tmp_path / "ids.txt", option, server.address)
        assert server.paths == []
    assert (result.exit_code, f"End its name in {suffixes}." in result.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["ids.txt"]


def site(path: str, headers: dict[str, str], body: bytes) -> Answer:
    """Every item has two revisions, 10 and (from 2022) 20."""
    asked = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(asked.query).items()}
    if asked.path == "/w/api.php":
        number = 20 if query["rvstart"] >= "2022" else 10
        return 200, {}, json.dumps({"query": {"pages": [{"revisions": [{"revid": number}]}]}}).encode()
    name = asked.path.rpartition("/")[2].removesuffix(".json")
    made = entity(name, label=name, lastrevid=int(query.get("revision", 20)))
    return 200, {}, json.dumps({"entities": {name: made}}).encode()


@pytest.mark.parametrize(
    ("date", "revisions"),
    [((), {"Q1": 20, "Q2": 10}), (("--date", "2021-01-04"), {"Q1": 10, "Q2": 10})],
)
def test_items_are_asked_for_now_on_a_day_or_at_the_revision_in_the_list(
    tmp_path: Path, date: tuple[str, ...], revisions: dict[str, int]
) -> None:
    (tmp_path / "ids.txt").write_text("Q1\nQ2@10 # before the move\n", encoding="utf-8")
    with serving(site) as server:
        result = run(
            "fetch-items", tmp_path / "i.json", "--items", tmp_path / "ids.txt", "--site", server.address, *date
        )
    assert result.exit_code == 0, result.output
    found = map(json.loads, (tmp_path / "i.json").read_text(encoding="utf-8").splitlines())
    assert {one["id"]: one["lastrevid"] for one in found} == revisions


@pytest.mark.parametrize(
    ("text", "message"), [("Q1@x", "names no revision"), ("Q1@", "names no revision"), ("Q1@1\nQ1", "two revisions")]
)
def test_a_revision_that_is_none_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "ids.txt").write_text(text, encoding="utf-8")
    result = run("fetch-items", tmp_path / "i.json", "--items", tmp_path / "ids.txt", "--site", "http://127.0.0.1:1")
    assert (result.exit_code, message in result.stderr) == (1, True)


def test_as_many_steps_as_containment_is_followed_can_be_fetched_and_what_came_is_counted(tmp_path: Path) -> None:
    """Q1 -> Q2 -> Q3 ... -> Q20, each within the next."""
    assert MOST_STEPS == MAX_DEPTH

    def chain(path: str, headers: dict[str, str], body: bytes) -> Answer:
        name = urlsplit(path).path.rpartition("/")[2].removesuffix(".json")
        outwards = about("P131", f"Q{int(name[1:]) + 1}")
        return 200, {}, json.dumps({"entities": {name: entity(name, outwards, label=name)}}).encode()

    (tmp_path / "ids.txt").write_text("Q1\n", encoding="utf-8")
    with serving(chain) as server:
        result = run(
            *("fetch-items", tmp_path / "i.json", "--items", tmp_path / "ids.txt", "--site", server.address),
            *("--ancestors", "8", "--no-properties", "--format", "json"),
        )
    assert result.exit_code == 0, result.output
    assert "values and what contains them: 9 of these; 1 further ones left out" in result.stderr
    outcome = json.loads(result.stdout)
    assert (outcome["entities"], outcome["ancestors"], outcome["ancestors_left_out"]) == (10, 9, 1)
