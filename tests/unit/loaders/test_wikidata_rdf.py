"""Triples become rows; what cannot be read costs only itself; values described elsewhere are found."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kgedit.loaders.wikidata_rdf import FullRdfParser
from world.dumps import Json, entity, entity_value, quantity_value, snak, statement, time_value
from world.rdf import RdfWriter

from kgedit.loaders.detection import load_with
from kgedit.store.blocks import parse_blocks
from kgedit.store.builds import read_late_values
from kgedit.store.ingest import ingest, ingest_as_of
from kgedit.store.part_files import PartFiles
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile

OFFICE = statement(
    snak("P6", entity_value("Q5")), snak("P580", time_value("+2014-03-00T00:00:00Z", 10)), rank="preferred"
)


def triples(*entities: Json) -> bytes:
    return RdfWriter().dump([{"labels": {}} | one for one in entities])


def parse(text: bytes) -> tuple[list[Json], list[Json], dict[str, int]]:
    parsed = FullRdfParser(LoaderOptions()).parse(text)
    return parsed.claims.to_pylist(), parsed.entities.to_pylist(), {k: v for k, v in parsed.counts.items() if v}


def load(folder: Path, text: bytes, block_bytes: int = 1 << 20) -> Snapshot:
    (folder / "dump.nt").write_bytes(text)
    order = load_with("wikidata_rdf", LoaderOptions(), date=datetime.date(2021, 1, 4), max_error_rate=1)
    source = DumpFile(folder / "dump.nt", block_bytes)
    return ingest(folder / "home", order, source, workers=1, overwrite=True)


@pytest.mark.parametrize(
    ("time", "precision", "calendar", "expected"),
    [
        ("+1642-12-25T00:00:00Z", 11, "Q1985786", "1642-12-25"),
        ("-0044-03-15T00:00:00Z", 11, "Q1985786", "-0044-03-15"),
        ("+1700-02-29T00:00:00Z", 11, "Q1985786", "1700-02-29"),
        ("-0001-01-01T00:00:00Z", 9, "Q1985727", "-0001"),
        ("-4000-00-00T00:00:00Z", 6, "Q1985727", "-4000"),
        ("+2014-03-00T00:00:00Z", 10, "Q1985727", "2014-03"),
    ],
)
def test_times_are_what_was_entered_whatever_the_calendar_of_the_rdf(
    time: str, precision: int, calendar: str, expected: str
) -> None:
    rows, _, _ = parse(triples(entity("Q1", statement(snak("P569", time_value(time, precision, calendar))))))
    assert (rows[0]["value"], rows[0]["precision"], rows[0]["calendar"]) == (expected, str(precision), calendar)


def test_qualifiers_of_one_property_keep_their_own_precision() -> None:
    times = [snak("P580", time_value(text, precision)) for text, precision in (
        ("+2014-01-01T00:00:00Z", 9), ("+2014-01-01T00:00:00Z", 11), ("+2015-00-00T00:00:00Z", 9)
    )]  # fmt: skip
    rows, _, counts = parse(triples(entity("Q1", statement(snak("P6", entity_value("Q5")), *times))))
    assert counts["further values of a time qualifier"] == 1
    assert (rows[0]["start_time"], rows[0]["start_precision"]) in (("2014", 9), ("2014-01-01", 11))


def test_values_described_in_another_block_are_found_in_either_direction(tmp_path: Path) -> None:
    text = triples(*(entity(f"Q{number}", OFFICE) for number in range(1, 9)))
    snapshot = load(tmp_path, text, 1500)
    assert (snapshot.manifest["claims"], snapshot.manifest["left_out"]) == (8, {})
    assert b"timePrecision" not in text[text.index(b"Special:EntityData/Q2>") :]
    nodes = [line for line in text.splitlines(keepends=True) if line.startswith(b"<http://www.wikidata.org/value/")]
    late = b"".join(line for line in text.splitlines(keepends=True) if line not in nodes) + b"".join(nodes)
    again = load(tmp_path, late, 1500)
    assert (again.manifest["claims"], again.manifest["left_out"]) == (8, {})
    assert {(row["start_time"], row["start_precision"]) for row in pq.read_table(again.claims).to_pylist()} == {
        ("2014-03", 10)
    }


@pytest.mark.parametrize("still_waiting", [False, True])
def test_a_block_that_changed_keeps_no_late_claims_of_its_earlier_content(tmp_path: Path, still_waiting: bool) -> None:
    undated = statement(snak("P6", entity_value("Q7")))
    now = [entity("Q1", OFFICE), *([entity("Q2", OFFICE)] if still_waiting else []), entity("Q3", undated)]
    files, claims = [], []
    for name, texts in (
        ("resumed", (triples(*(entity(f"Q{number}", OFFICE) for number in range(1, 4))), triples(*now))),
        ("fresh", (triples(*now),)),
    ):
        parts = PartFiles(tmp_path / name, 1)
        parts.folder.mkdir()
        for text in texts:
            (tmp_path / "dump.nt").write_bytes(text)
            order = load_with("wikidata_rdf", LoaderOptions(), date=datetime.date(2021, 1, 4))
            source, ignored = DumpFile(tmp_path / "dump.nt", 1500), lambda done, counted: None
            blocks, _ = parse_blocks(
                parts, source, order.make_loader, framing=order.framing, limit=None, workers=1, progress=ignored
            )
            read_late_values(parts, blocks, order.make_loader, spill=tmp_path / "spill")
        numbered = [path for path in parts.folder.iterdir() if int(path.stem[-6:]) < blocks]
        files.append(sorted(path.name for path in numbered))
        claims.append(parts.read_blocks("claims", range(blocks), 0).to_pylist())
    assert files[0] == files[1]
    assert claims[0] == claims[1]


def test_a_value_that_is_described_nowhere_costs_its_statement_and_is_counted(tmp_path: Path) -> None:
    lines = triples(entity("Q1", OFFICE), entity("Q2", statement(snak("P6", entity_value("Q5"))))).splitlines(True)
    snapshot = load(
        tmp_path, b"".join(line for line in lines if not line.startswith(b"<http://www.wikidata.org/value/"))
    )
    assert (snapshot.manifest["statements"], snapshot.manifest["claims"]) == (2, 1)
    assert snapshot.manifest["left_out"] == {"value described nowhere": 1}


def test_no_value_and_unknown_value_are_told_apart_in_statements_and_qualifiers() -> None:
    rows, _, _ = parse(
        triples(
            entity("Q1", statement(snak("P40", "novalue")), statement(snak("P22", "somevalue"))),
            entity("Q2", statement(snak("P6", entity_value("Q5")), snak("P582", "somevalue"), snak("P580", "novalue"))),
        )
    )
    assert [row["snak"] for row in rows] == ["novalue", "somevalue", "value"]
    assert (rows[2]["end_precision"], rows[2]["start_precision"]) == (-1, None)
    assert rows[2]["qualifier_properties"] == ["P580", "P582"]


SAME_AS_Q1 = (
    b"<https://www.wikidata.org/wiki/Special:EntityData/Q10> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
    b"<http://schema.org/Dataset> .\n"
    b"<http://www.wikidata.org/entity/Q10> <http://www.w3.org/2002/07/owl#sameAs> "
    b"<http://www.wikidata.org/entity/Q1> .\n"
)


def test_redirects_are_rows_of_the_snapshot(tmp_path: Path) -> None:
    snapshot = load(tmp_path, triples(entity("Q1", OFFICE)) + SAME_AS_Q1)
    found = {row["id"]: row["redirect_target"] for row in pq.read_table(snapshot.entities).to_pylist()}
    assert found == {"Q1": None, "Q10": "Q1"}
    assert (snapshot.manifest["entities"], snapshot.manifest["redirected"]) == (1, 1)


def test_every_projection_has_the_redirects_the_datatypes_and_the_late_values_of_the_dump(tmp_path: Path) -> None:
    code = entity("Q2", OFFICE, statement(snak("P300", {"type": "string", "value": "NO-46"})))
    is_code = entity("P300", type="property", datatype="external-id")
    (tmp_path / "dump.nt").write_bytes(triples(entity("Q1", OFFICE), code, is_code) + SAME_AS_Q1)
    (tmp_path / "redirects.tsv").write_text("Q10\tQ2\nQ11\tQ10\t2015-06-01\n")
    order = load_with(
        "wikidata_rdf", LoaderOptions(), date=datetime.date(2021, 1, 4), redirects=tmp_path / "redirects.tsv"
    )
    projected = ingest_as_of(
        tmp_path / "home",
        order,
        DumpFile(tmp_path / "dump.nt", 1000),
        days=[datetime.date(2015, 1, 1), datetime.date(2016, 1, 1), datetime.date(2014, 1, 1)],
        workers=1,
        overwrite=False,
        progress=lambda done, counted: None,
    )
    found = [
        {row["id"]: row["redirect_target"] for row in pq.read_table(snapshot.entities).to_pylist()}
        for snapshot in projected
    ]
    described = {"Q1": None, "Q2": None, "P300": None, "Q10": "Q1"}
    assert found == [described, described, described | {"Q11": "Q1"}]
    assert [one.manifest["redirected"] for one in projected] == [1, 1, 2]
    assert [one.manifest["left_out"] for one in projected] == [{"redirect to another target as well": 1}] * 3
    facts = [{picked(row, "subject", "property") for row in pq.read_table(one.facts).to_pylist()} for one in projected]
    assert facts == [{("Q2", "P300")}, *[{("Q2", "P300"), ("Q1", "P6"), ("Q2", "P6")}] * 2]
    assert {
        picked(row, "property", "datatype") for one in projected for row in pq.read_table(one.claims).to_pylist()
    } == {("P6", "wikibase-item"), ("P300", "external-id")}


def test_lines_that_are_no_triples_are_counted_and_cost_only_themselves() -> None:
    lines = triples(entity("Q1", OFFICE)).replace(b"\n", b"\nno triple at all\n", 3)
    rows, entities, counts = parse(lines + b"# a comment\n\n")
    assert (len(rows), [one["id"] for one in entities]) == (1, ["Q1"])
    assert (counts["malformed triple"], counts["lines"]) == (3, 4)


def test_spaces_and_line_ends_may_be_others() -> None:
    text = triples(entity("Q1", OFFICE), entity("Q2", statement(snak("P1", quantity_value("+2.50")))))
    spaced = text.replace(b"> <", b">\t <").replace(b" .\n", b".\r\n")
    first, second = parse(text), parse(spaced)
    assert [row | {"x": 0} for row in first[0]] == [row | {"x": 0} for row in second[0]]
    assert first[1] == second[1]


def picked(row: Json, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_a_statement_of_no_entity_is_counted() -> None:
    text = b"".join(line for line in triples(entity("Q1", OFFICE)).splitlines(True) if b"/prop/P6> " not in line)
    rows, _, counts = parse(text)
    assert (rows, counts["statement of no entity"], counts["statements"]) == ([], 1, 1)


def test_a_url_like_that_of_an_entity_is_read_as_the_entity_and_the_loader_says_so() -> None:
    value = {"type": "string", "value": "http://www.wikidata.org/entity/Q5"}
    url = {"snaktype": "value", "property": "P2888", "datatype": "url", "datavalue": value}
    rows, _, _ = parse(triples(entity("Q1", statement(url))))
    assert (rows[0]["object"], rows[0]["value"]) == ("Q5", None)
    assert any("addresses of entities" in lacking for lacking in FullRdfParser.lacks)


def test_lexemes_are_left_out_under_their_own_name() -> None:
    lexeme = triples(entity("Q7", OFFICE)).replace(b"/Q7>", b"/L7>").replace(b"#Item>", b"#Lexeme>")
    _, entities, counts = parse(lexeme)
    assert (entities, counts["lexeme"], counts["lines"]) == ([], 1, 1)
