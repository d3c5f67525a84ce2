"""Style of Neo4j Browser, and the queries that it runs."""

from __future__ import annotations

import re

import pytest

from kgedit.errors import GraphError
from kgedit.graph.browser import (
    parse_style,
    query_around,
    saved_query,
    style_file,
)
from kgedit.graph.connection import LABELS
from kgedit.graph.queries import read_query_file
from kgedit.resources import data_folder

SNAPSHOTS = (20210104, 20230227)
SAVED = sorted(path.stem for path in (data_folder("cypher") / "browser").glob("*.cypher"))
WRITTEN = "\n".join(path.read_text(encoding="utf-8") for path in (data_folder("cypher") / "write").glob("*.cypher"))
VALUES: dict[str, str | int] = {
    "item": "Q183",
    "property": "P6",
    "date": 20230227,
    "from": 20210104,
    "to": 20230227,
}


@pytest.fixture
def rules() -> dict[str, dict[str, str]]:
    return parse_style(style_file().read_text(encoding="utf-8"))


def drawn(rules: dict[str, dict[str, str]], *labels: str) -> dict[str, str]:
    """A node's style as Browser computes it: every rule whose labels it has, the later ones over the earlier."""
    style: dict[str, str] = {}
    for selector, properties in rules.items():
        tag, *classes = selector.split(".")
        if tag == "node" and set(classes) <= set(labels):
            style |= properties
    return style


def test_every_label_and_relationship_type_that_is_written_has_a_rule(rules: dict[str, dict[str, str]]) -> None:
    labels = {*LABELS, *re.findall(r"\bSET \w+:(\w+)", WRITTEN)}
    types = set(re.findall(r"\)-\[\w*:(\w+)", WRITTEN))
    assert labels >= {"Term", "Item", "Property", "Value", "Merged", "Snapshot"}
    assert types == {"FACT", "CLAIM", "REDIRECT"}
    assert {f"node.{label}" for label in labels} <= rules.keys()
    assert {f"relationship.{name}" for name in types} <= rules.keys()
    assert all(rules.values())


def test_items_properties_values_and_merged_items_differ_in_colour(rules: dict[str, dict[str, str]]) -> None:
    kinds = (("Term", "Item"), ("Term", "Property"), ("Term", "Value"), ("Term", "Item", "Merged"), ("Snapshot",))
    assert len({drawn(rules, *labels)["color"] for labels in kinds}) == len(kinds)
    assert {drawn(rules, *labels)["caption"] for labels in kinds[:-1]} == {"{label}"}


def test_facts_show_their_caption_with_the_years(rules: dict[str, dict[str, str]]) -> None:
    assert rules["relationship.FACT"]["caption"] == "{caption}"
    assert rules["relationship.CLAIM"]["caption"] == "{property_label}"


def test_braces_inside_quotes_do_not_end_a_rule() -> None:
    assert parse_style('node.A {\n  caption: "{a}: {b}";\n  color: #FFFFFF;\n}\nnode {\n  color: #000;\n}\n') == {
        "node.A": {"caption": "{a}: {b}", "color": "#FFFFFF"},
        "node": {"color": "#000"},
    }


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_query_is_written_out_with_all_its_parameters(name: str) -> None:
    query = read_query_file(data_folder("cypher") / "browser" / f"{name}.cypher")
    text = saved_query(name, **{parameter.name: VALUES[parameter.name] for parameter in query.parameters})
    assert "$" not in text
    assert "//" not in text
    for parameter in query.parameters:
        value = VALUES[parameter.name]
        assert (f"'{value}'" if isinstance(value, str) else str(value)) in text


@pytest.mark.parametrize("item", ["Germany", "q183", "Q0", "Q183'}) DETACH DELETE n //", "Q183\n", "", "$from"])
def test_only_an_id_is_written_into_a_query(item: str) -> None:
    with pytest.raises(GraphError, match="item"):
        saved_query("facts_of_item", item=item)


def test_only_a_number_is_written_for_a_date() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        saved_query("changes_around_item", **VALUES | {"from": "0 OR true"})


def test_without_a_window_an_item_shows_its_facts_and_with_one_its_changes() -> None:
    assert query_around("Q183", {}, SNAPSHOTS) == saved_query("facts_of_item", item="Q183")
    changes = query_around("Q183", {"from": "2021-01-04", "to": "2023-02-27"}, SNAPSHOTS)
    assert "20210104 < f.since <= 20230227" in changes


def test_a_window_between_days_without_a_snapshot_is_refused_with_the_list_of_those_there_are() -> None:
    with pytest.raises(GraphError, match=r"no snapshot of 2022-01-01 \(loaded: 2021-01-04, 2023-02-27\)"):
        query_around("Q183", {"from": "2022-01-01", "to": "2023-02-27"}, SNAPSHOTS)
