"""Edges become rows; a real subset in KGTK's files loads, and nothing in it is lost uncounted."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kgedit.loaders.kgtk import Edges, KgtkParser
from world.dumps import Json
from world.shared_data import SHARED

from kgedit.loaders.detection import load_with
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.sources import DumpFile

HEADING = "id\tnode1\tlabel\tnode2\trank\n"


def parse(*edges: str, heading: str = HEADING) -> tuple[list[Json], list[Json], dict[str, int]]:
    parsed = KgtkParser(LoaderOptions()).parse((heading + "\n".join(edges) + "\n").encode())
    return parsed.claims.to_pylist(), parsed.entities.to_pylist(), {k: v for k, v in parsed.counts.items() if v}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Q5", {"object": "Q5", "datatype": "wikibase-item"}),
        ('"Key:\\"craft\\""', {"value": 'Key:"craft"', "datatype": "string"}),
        ("'it\\'s'@en", {"value": "it's", "language": "en"}),
        ("^2013-03-29T00:00:00Z/11", {"value": "2013-03-29", "precision": "11", "calendar": None}),
        ("^-0044-00-00T00:00:00Z/9", {"value": "-0044", "precision": "9"}),
        ("+20[+19,+21]Q11229", {"value": "20", "unit": "Q11229"}),
        ("-1.50", {"value": "-1.50", "unit": None}),
        ("@37.5/-120.25", {"value": "37.500000,-120.250000"}),
        ("somevalue", {"snak": "somevalue", "value": None}),
    ],
)
def test_values_are_read_in_kgtks_spelling(text: str, expected: Json) -> None:
    rows, _, counts = parse(f"E1\tQ1\tP1\t{text}\t")
    assert {name: rows[0][name] for name in expected} == expected
    assert counts == {"lines": 1, "statements": 1}


def test_words_ranks_and_qualifiers_belong_to_their_entity() -> None:
    rows, entities, counts = parse(
        "L1\tQ1\tlabel\t'Bonn'@en\t",
        "L2\tQ1\talias\t'Bonna'@en\t",
        "Q1-P6-Q5\tQ1\tP6\tQ5\tpreferred",
        "X1\tQ1-P6-Q5\tP580\t^2014-00-00T00:00:00Z/9\t",
        "D1\tP6\tdatatype\twikibase-item\t",
    )
    assert [(one["id"], one["kind"], one["label"], one["datatype"]) for one in entities] == [
        ("Q1", "item", "Bonn", None), ("P6", "property", None, "wikibase-item")
    ]  # fmt: skip
    assert entities[0]["aliases"] == ["Bonna"]
    assert [(row["statement_id"], row["rank"], row["start_time"]) for row in rows] == [
        ("Q1-P6-Q5", "preferred", "2014")
    ]
    assert counts == {"lines": 2, "statements": 1}


def test_what_cannot_be_read_is_counted() -> None:
    _, _, counts = parse("only two\tcells", "E1\tQ1\tP1\tprose\t", "E2\tpage\tlabel\t'x'@en\t", "E3\tQ9-P1-x\tP2\tQ1\t")
    assert counts == {
        "malformed edge": 1, "lines": 2, "unreadable value": 1, "statements": 2,
        "edge of no Wikidata entity": 1, "qualifier of no statement": 1,
    }  # fmt: skip


def test_names_and_descriptions_without_a_language_are_counted(tmp_path: Path) -> None:
    edges = ['Q1\tlabel\t"Berlin"', "Q1\talias\tSpree-Athen", "Q1\tdescription\t'city'@en", "Q1\tP17\tQ183"]
    path = tmp_path / "edges.tsv"
    path.write_text("\n".join(["node1\tlabel\tnode2", *edges]) + "\n")
    order = load_with("kgtk", LoaderOptions(), date=datetime.date(2021, 1, 4))
    made = ingest(tmp_path / "home", order, DumpFile(path), workers=1, overwrite=False)
    assert made.manifest["noted"] == {"name or description without language": 2}
    assert (made.manifest["entities"], made.manifest["claims"]) == (1, 1)


@pytest.mark.parametrize("size", [1, 10, 100, 10_000])
def test_blocks_hold_whole_entities_with_the_heading(size: int) -> None:
    lines = [f"E{number}\tQ{number // 3}{'-P1' if number % 3 else ''}\tP1\tQ5\t" for number in range(3, 60)]
    text = (HEADING + "\n".join(lines) + "\n").encode()
    blocks = list(Edges().blocks((text[at : at + size] for at in range(0, len(text), size)), Path("edges")))
    assert all(block.startswith(HEADING.encode()) for block in blocks)
    assert b"".join(block.removeprefix(HEADING.encode()) for block in blocks) == text.removeprefix(HEADING.encode())
    starts = [block.splitlines()[1].split(b"\t")[1] for block in blocks]
    assert all(b"-" not in start for start in starts)
    assert Edges().first(text, 2)[0] == (HEADING + "\n".join(lines[:6]) + "\n").encode()


@pytest.mark.shared
@pytest.mark.slow
def test_a_real_subset_loads_and_every_edge_is_counted(tmp_path: Path) -> None:
    folder = SHARED / "kgtk_arnold"
    heading, lines = "node1\tlabel\tnode2\tid\tnode2;wikidatatype", []
    for name in ("labels.en", "claims.time", "claims.quantity"):
        with gzip.open(folder / f"{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
            next(file)
            found = [line.rstrip("\n") for line in file][::8]
        lines += [line if line.count("\t") == 4 else line + "\t" for line in found]
    lines.sort(key=lambda line: line.split("\t")[0])
    path = tmp_path / "edges.tsv"
    path.write_text("\n".join([heading, *lines]) + "\n", encoding="utf-8")
    order = load_with("kgtk", LoaderOptions(), date=datetime.date(2021, 1, 4))
    made = ingest(tmp_path / "home", order, DumpFile(path, 1 << 18), workers=1, overwrite=False,
                  progress=lambda done, counted: None)  # fmt: skip
    claims = sum(line.split("\t")[1].startswith("P") for line in lines)
    assert made.manifest["statements"] == claims > 15_000
    assert made.manifest["claims"] + sum(made.manifest["left_out"].values()) == claims
    assert made.manifest["claims"] > 0.99 * claims
    labelled = {line.split("\t")[0] for line in lines if line.split("\t")[1] == "label"}
    found = {row["id"] for row in pq.read_table(made.entities, columns=["id", "label"]).to_pylist() if row["label"]}
    assert found == labelled
