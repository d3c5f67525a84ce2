"""Query files and their headers, without a server."""

from __future__ import annotations

import pytest

from kgedit.errors import GraphError
from kgedit.graph.queries import check_dates, checked_dates, read_queries, read_query
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

LOADED = (20210104, 20230227)


def test_the_two_hop_stop_list_stands_once() -> None:
    (stop,) = [p for p in read_query("two_hop_changes").parameters if p.name == "stop"]
    assert stop.default == list(TWO_HOP_STOP_LIST)
    assert not [q.name for q in read_queries().values() if "P1151" in q.text]


@pytest.mark.parametrize("name", list(read_queries()))
def test_ids_come_with_labels(name: str) -> None:
    columns = {column for column, _ in read_queries()[name].returns}
    labels = {"subject_label", "label", "property_label", "object_label", "old_labels", "first_property_label"}
    assert columns & labels


@pytest.mark.parametrize("text", ["2021-02-30", "2021-13-01", "20210104x", "2021", "yesterday", "２０２１-01-04"])
def test_what_is_no_day_is_no_date(text: str) -> None:
    with pytest.raises(GraphError, match="is not a date"):
        read_query("changed_edges").bind({"from": text, "to": "2023-02-27"})


def test_dates_are_those_of_snapshots_and_in_order() -> None:
    assert checked_dates({"from": "2021-01-04", "to": "2023-02-27"}, LOADED) == {"from": 20210104, "to": 20230227}
    with pytest.raises(GraphError, match=r"no snapshot of 2030-01-01 \(loaded: 2021-01-04, 2023-02-27\)"):
        check_dates({"from": 20210104, "to": 20300101}, LOADED)
    with pytest.raises(GraphError, match="not before"):
        check_dates({"from": 20230227, "to": 20210104}, LOADED)
    with pytest.raises(GraphError, match="loaded: none"):
        check_dates({"date": 20210104}, ())
