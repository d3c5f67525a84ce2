"""The Python API on a home with a graph."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from world.documented import examples

import kgedit
from graph.worlds import kgedit as command
from kgedit.sample.generate import write_world

pytestmark = pytest.mark.graph


def test_changes_are_a_table_with_ids_and_labels_of_both_dates(sample_home: Path) -> None:
    home = kgedit.Home(sample_home)
    changes = home.changes("2021-01-04", datetime.date(2023, 2, 27))
    rows = {(row["subject"], row["property"]): row for row in changes.to_pylist()}

    assert isinstance(changes, pa.Table)
    germany = rows["Q183", "P6"]
    assert (germany["old_labels"], germany["new_labels"]) == (["Angela Merkel"], ["Olaf Scholz"])
    assert germany["subject_label"] == "Germany"
    given = ["-p", "from=2021-01-04", "-p", "to=2023-02-27", "--format", "json"]
    assert json.loads(command(sample_home, "query", "changed_edges", *given)) == changes.to_pylist()
    assert len(changes.to_pandas()) == changes.num_rows
    for window, said in (
        (("2021-01-04", "2022-01-01"), "no snapshot of"),
        (("2023-02-27", "2021-01-04"), "not before"),
    ):
        with pytest.raises(kgedit.GraphError, match=said):
            home.changes(*window)


def test_changes_have_their_kinds_where_these_are_asked_for(sample_home: Path) -> None:
    home = kgedit.Home(sample_home)
    window = ("2021-01-04", "2023-02-27")
    changes = home.changes(*window, kinds=True)
    kinds = {(row["subject"], row["property"]): row["kind"] for row in changes.to_pylist()}

    assert kinds["Q183", "P6"] == "update"
    # Élisabeth Borne's birthplace: Paris, and then its 15th arrondissement.
    assert kinds["Q20020731", "P19"] == "refinement"
    assert changes.drop_columns(["kind", "kind_confidence", "kind_signals"]) == home.changes(*window)


@pytest.mark.parametrize("day", [20210104, 20230227])
def test_a_subgraph_is_what_the_graph_holds_around_an_item_on_that_day(sample_home: Path, day: int) -> None:
    home = kgedit.Home(sample_home)
    found = home.query(
        cypher="""
        MATCH path = (:Term {id: 'Q183'})-[:FACT*1..2]->()
        WHERE all(fact IN relationships(path) WHERE fact.since <= $day < fact.until)
        UNWIND relationships(path) AS fact
        RETURN DISTINCT startNode(fact).id AS subject, endNode(fact).id AS object, fact.property AS property
        """,
        parameters={"day": day},
    )
    near = home.subgraph("Q183", depth=2, date=datetime.datetime.strptime(str(day), "%Y%m%d").date())
    assert len(found) > 20
    assert set(near.edges(keys=True)) == {tuple(row.values()) for row in found}


def test_queries_take_dates_and_texts_and_give_rows(sample_home: Path) -> None:
    home = kgedit.Home(sample_home)
    asked = {"from": datetime.date(2021, 1, 4), "to": "2023-02-27"}

    assert home.query("changed_edges", asked) == home.changes("2021-01-04", "2023-02-27").to_pylist()
    assert home.query(cypher="MATCH (i:Item {id: $id}) RETURN i.label AS label", parameters={"id": "Q183"}) == [
        {"label": "Germany"}
    ]
    with pytest.raises(kgedit.GraphError, match="missing: to"):
        home.query("changed_edges", {"from": "2021-01-04"})


def test_a_timestep_is_exported_opened_and_its_cases_read(sample_home: Path, tmp_path: Path) -> None:
    home = kgedit.Home(sample_home)
    timestep = home.export_timestep("2021-01-04", "2023-02-27", out=tmp_path / "timestep")
    cases = {case.case_id: case for case in kgedit.Timestep.open(tmp_path / "timestep").cases()}

    assert timestep.name == "20210104_20230227"
    assert cases["Q183:P6:Q61053"].answer == "Olaf Scholz"
    home.export_timestep("2021-01-04", "2023-02-27", out=tmp_path / "timestep")  # a cell that runs twice keeps it
    with pytest.raises(kgedit.TimestepError, match="of other snapshots or options"):
        home.export_timestep("2023-02-27", "2024-06-03", out=tmp_path / "timestep")


def test_the_documented_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path / "sample")
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(examples(graph=True), "docs/api.md", "exec"), {})
    finally:
        kgedit.Home(tmp_path / "kgedit-data").stop_graph()
    said = capsys.readouterr().out
    assert re.search(r"head of government +\[Angela Merkel\] +\[Olaf Scholz\]", said)
    assert len(re.findall(r"\? \(", said)) == 3, "three cases"
    assert "{'id': 'Q183', 'label': 'Germany'" in said, "found by name"
    assert re.search(r"/browser/\?cmd=edit&arg=\S+Q183", said), "Browser's page"
    assert re.search(r"^\d+ True$", said, re.MULTILINE), "relations, and the server that runs"
