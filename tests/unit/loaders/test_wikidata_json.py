"""Lines of a dump become rows; what cannot be read costs only itself and is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kgedit.loaders.wikidata_json import JsonParser
from world.dumps import (
    Json,
    entity,
    entity_value,
    lines,
    quantity_value,
    snak,
    statement,
    text_value,
    time_value,
)
from world.parsers import PARSERS, make_parser

from kgedit.store.schemas import LoaderOptions

PARSER: JsonParser


@pytest.fixture(params=PARSERS, scope="module", autouse=True)
def parser(request: pytest.FixtureRequest) -> str:
    """Every test runs with both parsers."""
    global PARSER  # noqa: PLW0603 - the helpers below use it
    PARSER = make_parser(request.param)
    return str(request.param)


HUMAN = statement(snak("P31", entity_value("Q5"), "wikibase-item"))


def parse(content: bytes | list[Json]) -> tuple[list[Json], list[Json], dict[str, int]]:
    parsed = PARSER.parse(content if isinstance(content, bytes) else lines(content))
    return parsed.claims.to_pylist(), parsed.entities.to_pylist(), {k: v for k, v in parsed.counts.items() if v}


def claim(made: Json) -> Json:
    """The only row of a statement about Q1."""
    rows, _, counts = parse([entity("Q1", made)])
    assert len(rows) == 1, counts
    return rows[0]


def picked(row: Json, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# Values


def test_an_entity_is_an_object_and_no_literal() -> None:
    row = claim(statement(snak("P31", entity_value("Q5"), "wikibase-item"), statement_id="Q1$A"))
    names = ("statement_id", "subject", "property", "rank", "snak", "datatype", "object", "value")
    assert picked(row, *names) == ("Q1$A", "Q1", "P31", "normal", "value", "wikibase-item", "Q5", None)


@pytest.mark.parametrize(
    ("value", "object_id", "datatype"),
    [
        ({"entity-type": "item", "numeric-id": 5}, "Q5", "wikibase-item"),
        ({"entity-type": "item", "id": "Q5"}, "Q5", "wikibase-item"),
        ({"entity-type": "property", "numeric-id": 31}, "P31", "wikibase-property"),
        ({"entity-type": "lexeme", "numeric-id": 7}, "L7", "wikibase-lexeme"),
        ({"entity-type": "form", "id": "L7-F1"}, "L7-F1", "wikibase-lexeme"),
    ],
)
def test_entities_are_read_in_the_spelling_of_2015_and_in_todays(value: Json, object_id: str, datatype: str) -> None:
    row = claim(statement(snak("P1", {"type": "wikibase-entityid", "value": value})))
    assert picked(row, "object", "datatype") == (object_id, datatype)


def test_an_item_above_twenty_millions_is_an_item_like_others() -> None:
    rows, entities, _ = parse([entity("Q130000001", statement(snak("P31", entity_value("Q130000002"))))])
    assert (rows[0]["subject"], rows[0]["object"], entities[0]["id"]) == ("Q130000001", "Q130000002", "Q130000001")


MILLIMETRE = "http://www.wikidata.org/entity/Q174789"


@pytest.mark.parametrize(
    ("value", "datatype", "expected"),
    [
        (text_value("abc"), "external-id", ("abc", None, None, None, None)),
        (text_value("None"), "string", ("None", None, None, None, None)),
        (quantity_value("+42"), "quantity", ("42", None, None, None, None)),
        (quantity_value("-1.50", MILLIMETRE), "quantity", ("-1.50", "Q174789", None, None, None)),
        (
            {"type": "monolingualtext", "value": {"text": "Bonn", "language": "de"}},
            "monolingualtext",
            ("Bonn", None, "de", None, None),
        ),
        (time_value("+00000002015-00-00T00:00:00Z", 9), "time", ("2015", None, None, "9", "Q1985727")),
        (time_value("+1642-12-25T00:00:00Z", 11, "Q1985786"), "time", ("1642-12-25", None, None, "11", "Q1985786")),
        (
            {
                "type": "globecoordinate",
                "value": {
                    "latitude": 52.5, "longitude": -0.00000001, "altitude": None, "precision": 0.00027777777777778,
                    "globe": "http://www.wikidata.org/entity/Q2",
                },
            },
            "globe-coordinate",
            ("52.500000,0.000000", "Q2", None, "0.000277778", None),
        ),
        (
            {"type": "globecoordinate", "value": {"latitude": 1, "longitude": 2, "precision": None}},
            "globe-coordinate",
            ("1.000000,2.000000", None, None, None, None),
        ),
    ],
)  # fmt: skip
def test_a_literal_is_written_in_one_canonical_way(value: Json, datatype: str, expected: tuple[Any, ...]) -> None:
    row = claim(statement(snak("P1", value, datatype)))
    assert picked(row, "value", "unit", "language", "precision", "calendar") == expected
    assert picked(row, "snak", "object", "datatype") == ("value", None, datatype)


def test_a_value_whose_snak_names_no_datatype_has_that_of_its_kind() -> None:
    assert claim(statement(snak("P1", text_value("abc"))))["datatype"] == "string"
    place = {"type": "globecoordinate", "value": {"latitude": 1.0, "longitude": 2.0}}
    assert claim(statement(snak("P1", place)))["datatype"] == "globe-coordinate"


@pytest.mark.parametrize("kind", ["somevalue", "novalue"])
def test_a_statement_without_a_value_keeps_its_row(kind: str) -> None:
    row = claim(statement(snak("P570", kind), snak("P585", time_value("+2001-00-00T00:00:00Z", 9))))
    assert picked(row, "snak", "object", "value", "point_time") == (kind, None, None, "2001")


@pytest.mark.parametrize("rank", ["preferred", "normal", "deprecated"])
def test_ranks_are_kept(rank: str) -> None:
    assert claim(statement(HUMAN["mainsnak"], rank=rank))["rank"] == rank


# Qualifiers


def test_the_three_times_of_a_statement_are_columns() -> None:
    row = claim(
        statement(
            HUMAN["mainsnak"],
            snak("P582", time_value("+2015-03-00T00:00:00Z", 10)),
            snak("P580", time_value("+2014-00-00T00:00:00Z", 9)),
            snak("P585", time_value("+2014-07-09T00:00:00Z", 11)),
        )
    )
    assert picked(row, "start_time", "start_precision", "start_first", "start_until") == ("2014", 9, 20140101, 20150101)
    assert picked(row, "end_time", "end_precision", "end_first", "end_until") == ("2015-03", 10, 20150301, 20150401)
    assert picked(row, "point_time", "point_precision", "point_first") == ("2014-07-09", 11, 20140709)
    assert row["qualifier_properties"] == ["P580", "P582", "P585"]


def test_an_unknown_end_differs_from_no_end() -> None:
    unknown, none = (claim(statement(HUMAN["mainsnak"], snak("P582", kind))) for kind in ("somevalue", "novalue"))
    assert picked(unknown, "end_time", "end_precision", "end_first") == (None, -1, None)
    assert picked(none, "end_time", "end_precision", "end_first") == (None, None, None)
    assert unknown["qualifier_properties"] == none["qualifier_properties"] == ["P582"]


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_times_the_earliest_start_and_the_latest_end_count_in_any_order(turned: bool) -> None:
    times = [snak(p, time_value(f"+{year}-00-00T00:00:00Z", 9)) for p in ("P580", "P582") for year in (2001, 2009)]
    both = [*times, snak("P582", "somevalue")]
    made = statement(HUMAN["mainsnak"], *(reversed(both) if turned else both))
    rows, _, counts = parse([entity("Q1", made)])
    assert picked(rows[0], "start_time", "end_time") == ("2001", "2009")
    assert counts["further values of a time qualifier"] == 2


def test_the_separators_of_a_constraint_are_listed() -> None:
    constraint = statement(
        snak("P2302", entity_value("Q19474404")),
        snak("P4155", entity_value("P582")),
        snak("P4155", entity_value("P580")),
    )
    assert claim(constraint)["separators"] == ["P580", "P582"]


def test_an_unreadable_qualifier_costs_not_its_statement_and_still_tells_versions_apart() -> None:
    def with_qualifier(text: str) -> Json:
        return statement(HUMAN["mainsnak"], snak("P580", time_value(text, 11)))

    rows, _, counts = parse([entity("Q1", with_qualifier("+2001-99-00T00:00:00Z"))])
    assert (counts["unreadable qualifier"], picked(rows[0], "start_time", "start_precision")) == (1, (None, None))
    assert rows[0]["version"] != claim(with_qualifier("+2001-98-00T00:00:00Z"))["version"]


def test_an_entity_in_a_qualifier_or_a_reference_is_never_a_row() -> None:
    reference = {"hash": "x", "snaks": {"P248": [snak("P248", entity_value("Q7"))]}, "snaks-order": ["P248"]}
    made = statement(HUMAN["mainsnak"], snak("P642", entity_value("Q6")), references=[reference])
    rows, entities, _ = parse([entity("Q1", made)])
    assert [row["object"] for row in rows] == ["Q5"]
    assert [row["id"] for row in entities] == ["Q1"]


# The version of a statement


def qualified(value: Json, *qualifiers: Json, rank: str = "normal", references: list[Any] | None = None) -> int:
    version = claim(statement(snak("P1", value), *qualifiers, rank=rank, references=references or ()))["version"]
    assert isinstance(version, int)
    return version


START, ROLE = snak("P580", time_value("+2014-00-00T00:00:00Z", 9)), snak("P642", entity_value("Q6"))
OTHER_ROLE = snak("P642", entity_value("Q7"))
FIVE = quantity_value("+5", upperBound="+6", lowerBound="+4")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: qualified(FIVE, START, ROLE, rank="preferred"), id="rank"),
        pytest.param(lambda: qualified(FIVE, START), id="one qualifier less"),
        pytest.param(lambda: qualified(FIVE, START, OTHER_ROLE), id="a qualifier's value"),
        pytest.param(lambda: qualified(FIVE, START, ROLE, ROLE), id="a qualifier twice"),
        pytest.param(lambda: qualified(FIVE, START, snak("P642", "somevalue")), id="a qualifier's kind"),
        pytest.param(lambda: qualified(quantity_value("+5"), START, ROLE), id="no bounds"),
        pytest.param(
            lambda: qualified(quantity_value("+5", upperBound="+7", lowerBound="+4"), START, ROLE), id="a bound"
        ),
        pytest.param(lambda: qualified(quantity_value("+6"), START, ROLE), id="the value"),
        pytest.param(
            lambda: qualified(FIVE, snak("P580", time_value("+2014-01-00T00:00:00Z", 10)), ROLE), id="a precision"
        ),
    ],
)
def test_a_version_changes_with_what_is_said(other: Callable[[], int]) -> None:
    assert other() != qualified(FIVE, START, ROLE)


def test_a_version_does_not_change_with_order_or_references() -> None:
    here = qualified(FIVE, START, ROLE, OTHER_ROLE)
    assert here == qualified(FIVE, OTHER_ROLE, ROLE, START)
    assert here == qualified(FIVE, START, ROLE, OTHER_ROLE, references=[{"hash": "y", "snaks": {}}])


def test_a_version_does_not_change_with_the_spelling_of_values_or_datatypes() -> None:
    old = {"type": "wikibase-entityid", "value": {"entity-type": "item", "numeric-id": 5}}
    new = {"type": "wikibase-entityid", "value": {"entity-type": "item", "id": "Q5"}}
    assert qualified(old, snak("P642", old)) == qualified(new, snak("P642", new, "wikibase-item"))
    long, short = (time_value(f"+{zeros}2014-00-00T00:00:00Z", 9) for zeros in ("0000000", ""))
    assert qualified(FIVE, snak("P580", long)) == qualified(FIVE, snak("P580", short))
    string, identifier = (statement(snak("P1", text_value("abc"), datatype)) for datatype in ("string", "external-id"))
    assert claim(string)["version"] == claim(identifier)["version"]


def test_the_same_claim_about_another_subject_is_another_version() -> None:
    rows, _, _ = parse([entity("Q1", HUMAN), entity("Q2", HUMAN)])
    assert rows[0]["version"] != rows[1]["version"]


def test_a_statement_without_an_id_gets_one_that_outlives_rank_and_qualifiers() -> None:
    def given_id(**changes: Any) -> str:
        made = entity("Q1", statement(snak("P31", entity_value("Q5")), **changes))
        del made["claims"]["P31"][0]["id"]
        return str(parse([made])[0][0]["statement_id"])

    assert given_id() == given_id(rank="preferred") != ""
    assert given_id().startswith("Q1$")


# Entities


def test_an_entity_has_the_words_of_the_wanted_languages() -> None:
    def words(*texts: tuple[str, str]) -> Json:
        return {language: {"language": language, "value": text} for language, text in texts}

    item = entity("Q1", lastrevid=7) | {
        "labels": words(("fr", "univers"), ("mul", "universe"), ("en", "the universe")),
        "descriptions": words(("mul", "all there is")),
        "aliases": {
            "en": [{"language": "en", "value": text} for text in ("cosmos", "space")],
            "mul": [{"language": "mul", "value": "cosmos"}],
        },
        "sitelinks": {"dewiki": {"site": "dewiki", "title": "Universum"}, "enwiki": {"title": "Universe"}},
    }
    rows = parse([item])[1]
    assert rows == [
        {
            "id": "Q1", "kind": "item", "label": "the universe", "label_language": "en",
            "description": "all there is", "aliases": ["cosmos", "space"], "wiki_title": "Universe",
            "datatype": None, "lastrevid": 7, "redirect_target": None,
        }
    ]  # fmt: skip
    french = JsonParser(LoaderOptions(languages=("fr",), wiki="dewiki")).parse(lines([item])).entities.to_pylist()[0]
    assert picked(french, "label", "description", "wiki_title") == ("univers", None, "Universum")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("New\r\nYork", "New York"),
        (" New  York\t", "New York"),
        ("New\u2028York\u00a0", "New York"),
        ("\x1b[31mNew\x00 \x9b\x7f York", "[31mNew York"),
        ("\x1b \n", None),
        ("", None),
        ("Sa\u0303o Tomé \U0001f600", "Sa\u0303o Tomé \U0001f600"),
    ],
)
def test_words_are_one_line_of_plain_text_and_absent_if_nothing_is_left(written: str, read: str | None) -> None:
    term = {"language": "en", "value": written}
    item = entity("Q1") | {
        "labels": {"en": term},
        "descriptions": {"en": term},
        "aliases": {"en": [term, term | {"value": "other"}, term]},
        "sitelinks": {"enwiki": {"title": written}},
    }
    row = parse([item])[1][0]
    assert picked(row, "label", "description", "wiki_title") == (read, read, read)
    assert row["aliases"] == [text for text in (read, "other") if text]
    assert row["label_language"] == ("en" if read else None)


def test_case_35_labels_are_trimmed_and_double_spaces_collapse() -> None:
    items = [entity(f"Q{number}", label=label) for number, label in enumerate(("The  Hague ", "The Hague"), start=1)]
    assert [row["label"] for row in parse(items)[1]] == ["The Hague", "The Hague"]


def test_an_empty_label_gives_way_to_the_next_language() -> None:
    labels = {code: {"language": code, "value": text} for code, text in (("en", " "), ("mul", "universe"))}
    assert picked(parse([entity("Q1", labels=labels)])[1][0], "label", "label_language") == ("universe", "mul")


def test_a_literal_keeps_its_text() -> None:
    text = " two\r\nlines \u2028\x1b\x00 "
    assert claim(statement(snak("P1", text_value(text))))["value"] == text


def test_empty_maps_written_as_lists_are_empty() -> None:
    empty: Json = {name: [] for name in ("labels", "descriptions", "aliases", "claims", "sitelinks")}
    claims, entities, counts = parse([entity("Q1") | empty])
    assert (claims, counts) == ([], {"lines": 1})
    assert picked(entities[0], "id", "label", "aliases", "wiki_title") == ("Q1", None, [], None)


def test_a_property_has_a_datatype() -> None:
    assert parse([entity("P31", datatype="wikibase-item")])[1][0]["datatype"] == "wikibase-item"


def test_lexemes_are_counted_and_left_out() -> None:
    lexeme = {"type": "lexeme", "id": "L1", "lemmas": {}, "claims": [], "forms": []}
    assert parse([lexeme, entity("Q1")])[2] == {"lines": 2, "lexeme": 1}


# What is broken


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"mainsnak": snak("P1", "nonsense"), "rank": "normal"}, "unknown snak type"),
        ({"mainsnak": {"snaktype": "value", "property": "P1"}, "rank": "normal"}, "unknown snak type"),
        ({"mainsnak": snak("P1", {"type": "novel", "value": {}}), "rank": "normal"}, "unknown value type"),
        ({"mainsnak": snak("P1", time_value("yesterday", 11))}, "unreadable value"),
        ({"mainsnak": snak("P1", time_value("+99999999999999999-01-01T00:00:00Z", 9))}, "unreadable value"),
        ({"mainsnak": snak("P1", {"type": "quantity", "value": {}})}, "unreadable value"),
        (
            {"mainsnak": snak("P1", {"type": "wikibase-entityid", "value": {"entity-type": "item"}})},
            "unreadable value",
        ),
        ({"mainsnak": snak("P1", {"type": "globecoordinate", "value": {"latitude": 1}})}, "unreadable value"),
        ({"rank": "normal"}, "malformed statement"),
        (None, "malformed statement"),
        ("text", "malformed statement"),
        ({"mainsnak": snak("P1", text_value("a")), "rank": "best"}, "malformed statement"),
        ({"mainsnak": snak("P1", text_value("a")), "qualifiers": "none"}, "malformed statement"),
        *[({"mainsnak": snak(name, text_value("a"))}, "unusable property id") for name in ("", "Q1", "P01", "P1\n")],
        *[
            ({"mainsnak": snak("P1", {"type": "wikibase-entityid", "value": value})}, "unreadable value")
            for value in (
                {"entity-type": "item", "id": "Q1;2"}, {"entity-type": "item", "id": "Q1 "}, {"id": "NULL"}, "Q1",
                {"entity-type": "item", "numeric-id": 0}, {"entity-type": "item", "numeric-id": 10**18},
            )
        ],
        *[({"mainsnak": snak("P1", quantity_value("+1", unit))}, "unreadable value") for unit in ("Q1;2", "a\nb")],
        ({"mainsnak": snak("P1", {"type": "novel\r", "value": "a"})}, "unknown value type"),
        (
            {"mainsnak": snak("P1", {"type": "monolingualtext", "value": {"text": "a", "language": "e\nn"}})},
            "unreadable value",
        ),
    ],
)  # fmt: skip
def test_a_bad_statement_costs_only_itself(broken: Any, reason: str) -> None:
    item = entity("Q1", HUMAN, label="one")
    item["claims"]["P1"] = [broken]
    rows, entities, counts = parse([item, entity("Q2", HUMAN)])
    assert counts == {"lines": 2, "statements": 3, reason: 1}
    assert [(row["subject"], row["object"]) for row in rows] == [("Q1", "Q5"), ("Q2", "Q5")]
    assert [row["id"] for row in entities] == ["Q1", "Q2"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id":"Q1","type":"item"', "malformed JSON"),
        (b"Q1", "malformed JSON"),
        (b'{"id":"Q1","type":"item","labels":{"en":{"value":"\xff"}}}', "malformed JSON"),
        (b'{"id":"Q1","type":"item","labels":7}', "not an entity"),
        (b'{"id":"Q1","type":"item","lastrevid":99999999999999999999}', "not an entity"),
        (b'{"error":"too many requests"}', "not an entity"),
        (b'{"id":"E1","type":"novelty"}', "not an entity"),
        (b"17", "not an entity"),
        (b'{"id":"Q1","type":"item","x":' + b"[" * 1000 + b"]" * 1000 + b"}", "nested too deeply"),
        (b'{"id":"Q1","type":"item","labels":' + b'{"en":' * 5000, "nested too deeply"),
        (b"[" * 1000 + b"]" * 1000, "not an entity"),
        *[
            (json.dumps({"id": name, "type": "item"}).encode(), "unusable id")
            for name in ("", "NULL", "Q1;2", "Q1 ", "Q1\n", "q1", "Q0", "Q01", "P1", "Q\u0661", f"Q{10**18}")
        ],
        (b'{"id":"Q1","type":"property"}', "unusable id"),
        (b'{"id":"Q1","type":"item","lastrevid":-1}', "not an entity"),
    ],
)
def test_a_bad_line_costs_only_itself(line: bytes, reason: str) -> None:
    rows, entities, counts = parse(b"[\n" + line + b",\n" + json.dumps(entity("Q2", HUMAN)).encode() + b"\n]")
    assert counts == {"lines": 2, "statements": 1, reason: 1}
    assert ([row["subject"] for row in rows], [row["id"] for row in entities]) == (["Q2"], ["Q2"])


def test_invalid_utf_8_in_a_statement_costs_only_that_statement() -> None:
    block = lines([entity("Q1", HUMAN, statement(snak("P1", text_value("X"))), label="one")]).replace(b'"X"', b'"\xff"')
    rows, entities, counts = parse(block)
    assert counts == {"lines": 1, "statements": 2, "malformed statement": 1}
    assert ([row["object"] for row in rows], [row["label"] for row in entities]) == (["Q5"], ["one"])


@pytest.mark.parametrize("unusable", ["", "Q1 $A", "Q1$A\n", "Q1$\x1b", "Q1$\u2028", "Q1$" + "A" * 200])
def test_a_statement_id_that_is_none_is_replaced_and_noted(unusable: str) -> None:
    (row,), _, counts = parse([entity("Q1", HUMAN | {"id": unusable})])
    assert counts == {"lines": 1, "statements": 1, "unusable statement id": 1}
    assert row["statement_id"].startswith("Q1$")
    assert row["statement_id"].removeprefix("Q1$").isalnum()


@pytest.mark.parametrize("kind", ["", "wikibase-item\n", "a;b"])
def test_a_datatype_that_is_none_is_that_of_the_value(kind: str) -> None:
    assert claim(statement(snak("P1", entity_value("Q5")) | {"datatype": kind}))["datatype"] == "wikibase-item"
    assert parse([entity("P1", datatype=kind)])[1][0]["datatype"] is None


def test_a_qualifier_of_no_property_is_noted_and_still_tells_versions_apart() -> None:
    made = statement(HUMAN["mainsnak"], snak("P1;P2", text_value("a")), ROLE)
    (row,), _, counts = parse([entity("Q1", made)])
    assert (counts["unreadable qualifier"], row["qualifier_properties"]) == (1, ["P642"])
    assert row["version"] != claim(statement(HUMAN["mainsnak"], ROLE))["version"]


def test_claims_and_qualifiers_in_a_list_are_noted() -> None:
    made = statement(HUMAN["mainsnak"]) | {"qualifiers": [ROLE]}
    _, _, counts = parse([entity("Q1", made), entity("Q2") | {"claims": [HUMAN]}])
    assert counts == {
        "lines": 2,
        "statements": 1,
        "qualifiers written as a list": 1,
        "claims written as a list": 1,
    }
    assert set(counts) - {"lines", "statements"} <= set(JsonParser.notes)


def test_of_an_entity_twice_in_a_block_the_first_stays() -> None:
    again = entity("Q1", statement(snak("P31", entity_value("Q6"))), label="two")
    rows, entities, counts = parse([entity("Q1", HUMAN, label="one"), again])
    assert ([row["object"] for row in rows], [row["label"] for row in entities]) == (["Q5"], ["one"])
    assert counts == {"lines": 2, "statements": 2, "repeated entity": 1, "statement of a repeated entity": 1}


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(b"\n".join, id="bare lines"),
        pytest.param(lambda texts: b"[\n" + b",\n".join(texts) + b"\n]\n", id="array"),
        pytest.param(lambda texts: b"[\r\n" + b",\r\n".join(texts) + b"\r\n]\r\n", id="CRLF"),
        pytest.param(lambda texts: b"\xef\xbb\xbf" + b"\n".join(texts), id="byte order mark"),
        pytest.param(lambda texts: b"\xef\xbb\xbf[\n" + b",\n".join(texts) + b"\n]", id="byte order mark, array"),
        pytest.param(lambda texts: b"[" + b",\n".join(texts) + b"]\n", id="brackets on the entities' lines"),
        pytest.param(lambda texts: b"[ " + b"\n,".join(texts) + b" ]", id="commas first"),
        pytest.param(lambda texts: b"[" + b",".join(texts) + b"]", id="all on one line"),
        pytest.param(lambda texts: b"\xef\xbb\xbf [" + b" , ".join(texts) + b"]\r\n", id="one line with a mark"),
        pytest.param(lambda texts: b"[" + b",".join(texts[:2]) + b",\n" + texts[2] + b"]", id="two on the first line"),
        pytest.param(lambda texts: b"\n\n[\n" + b",\n \t\n".join(texts) + b",\n\n]", id="blank lines, last comma"),
    ],
)
def test_brackets_commas_and_line_ends_are_no_content(layout: Callable[[list[bytes]], bytes]) -> None:
    texts = [json.dumps(entity(name, HUMAN)).encode() for name in ("Q9", "Q10", "Q2")]
    rows, entities, counts = parse(layout(texts))
    assert counts == {"lines": 3, "statements": 3}
    assert [row["id"] for row in entities] == [row["subject"] for row in rows] == ["Q9", "Q10", "Q2"]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=5), st.data())
def test_whatever_is_in_a_block_its_counts_add_up(noise: list[bytes], data: st.DataObject) -> None:
    good = lines([entity("Q1", HUMAN), entity("Q2", HUMAN)])
    cut = data.draw(st.integers(0, len(good)))
    rows, entities, counts = parse(good[:cut] + b"\n".join(noise) + good[cut:])
    lost = sum(counts.get(reason, 0) for reason in (*JsonParser.bad_lines, "repeated entity"))
    assert counts.get("lines", 0) == len(entities) + lost
    bad = sum(counts.get(reason, 0) for reason in (*JsonParser.bad_statements, "statement of a repeated entity"))
    assert counts.get("statements", 0) == len(rows) + bad
