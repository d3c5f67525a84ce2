"""Items and their neighbours from a local site: now, at a date, at a revision, despite failures on the way."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from world.dumps import Json, entity, entity_value, load, snak, statement
from world.endpoints import Answer, serving

from kgedit.errors import SourceError
from kgedit.fetching.manners import Manners
from kgedit.fetching.slices import FetchedItems, ItemsOrder, fetch_items, slice_note


def about(property_id: str, object_id: str) -> Json:
    return statement(snak(property_id, entity_value(object_id), "wikibase-item"))


REVISIONS = {
    "Q1": {10: ("2020-05-01", [about("P6", "Q2")]), 20: ("2022-05-01", [about("P6", "Q3")])},
    "Q2": {11: ("2019-01-01", [about("P31", "Q5")])},
    "Q3": {12: ("2019-01-01", [about("P31", "Q5")])},
    "Q5": {13: ("2019-01-01", [])},
    "P6": {14: ("2019-01-01", [])},
    "P31": {15: ("2019-01-01", [])},
    "Q30": {30: ("2020-05-01", [about("P6", "Q31")])},
    "Q31": {31: ("2019-01-01", [about("P31", "Q32"), about("P131", "Q33"), about("P6", "Q36")])},
    "Q32": {32: ("2019-01-01", [about("P279", "Q34")])},
    "Q33": {33: ("2019-01-01", [about("P131", "Q35"), about("P31", "Q37")])},
    "Q34": {34: ("2019-01-01", [about("P279", "Q32")])},
    "Q35": {35: ("2019-01-01", [about("P361", "Q38")])},
    "Q38": {38: ("2019-01-01", [])},
}
REDIRECTS = {"Q9": "Q3"}


def site(path: str, headers: dict[str, str], body: bytes) -> Answer:
    """Wikidata in small: entity data, and the revisions of the API."""
    parts = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.path == "/w/api.php":
        name = query["titles"].removeprefix("Property:")
        until = query["rvstart"][:10]
        past = [number for number, (day, _) in REVISIONS.get(name, {}).items() if day <= until]
        pages = [{"title": name} | ({"revisions": [{"revid": max(past)}]} if past else {})]
        return 200, {}, json.dumps({"query": {"pages": pages}}).encode()
    name = parts.path.rpartition("/")[2].removesuffix(".json")
    name = REDIRECTS.get(name, name)
    if name not in REVISIONS:
        return 404, {}, b"no such entity"
    number = int(query.get("revision", max(REVISIONS[name])))
    made = entity(name, *REVISIONS[name][number][1], label=f"Entity {name}", lastrevid=number)
    return 200, {}, json.dumps({"entities": {name: made}}).encode()


def faulty(*faults: Answer) -> Callable[[str, dict[str, str], bytes], Answer]:
    left = list(faults)
    return lambda path, headers, body: left.pop(0) if left else site(path, headers, body)


def fetch(folder: Path, address: str, *ids: str, overwrite: bool = False, **changes: Any) -> FetchedItems:
    manners = Manners(contact="tests", pause=0, attempts=4, sleep=lambda seconds: None)
    order = ItemsOrder(ids=ids, site=address, manners=manners, **changes)
    return fetch_items(order, folder / "items.json", overwrite=overwrite)


def fetched(made: FetchedItems) -> dict[str, int]:
    return {one["id"]: one["lastrevid"] for one in map(json.loads, made.path.read_text(encoding="utf-8").splitlines())}


@pytest.mark.parametrize(
    ("depth", "found"), [(0, {"Q1", "P6"}), (1, {"Q1", "Q3", "P6", "P31"}), (2, {"Q1", "Q3", "Q5", "P6", "P31"})]
)
def test_neighbours_are_fetched_to_the_depth_asked_for(tmp_path: Path, depth: int, found: set[str]) -> None:
    with serving(site) as server:
        made = fetch(tmp_path, server.address, "Q1", depth=depth)
    assert set(fetched(made)) == found
    assert made.entities == len(found)
    assert len(server.paths) == len(found)


@pytest.mark.parametrize(
    ("steps", "around", "beyond"),
    [(0, set(), 0), (1, {"Q31", "Q32", "Q33"}, 2), (2, {"Q31", "Q32", "Q33", "Q34", "Q35"}, 1),
     (8, {"Q31", "Q32", "Q33", "Q34", "Q35", "Q38"}, 0)],
)  # fmt: skip
def test_what_contains_the_values_is_fetched_to_the_step_asked_for(
    tmp_path: Path, steps: int, around: set[str], beyond: int
) -> None:
    """Classes of values, but not of what contains them, nor any other neighbours; a circle of classes ends."""
    with serving(site) as server:
        made = fetch(tmp_path, server.address, "Q30", ancestors=steps, properties=False)
    assert set(fetched(made)) == {"Q30"} | around
    assert (made.ancestors, made.beyond) == (len(around), beyond)
    assert len(server.paths) == 1 + len(around)


def test_a_limit_bounds_what_contains_the_values_and_what_it_left_out_is_counted(tmp_path: Path) -> None:
    with serving(site) as server:
        made = fetch(tmp_path, server.address, "Q30", ancestors=8, limit=3, properties=False)
    assert set(fetched(made)) == {"Q30", "Q31", "Q32"}
    assert (made.ancestors, made.beyond) == (2, 2)


def test_items_are_as_they_were_on_the_day_and_not_at_all_before_they_were(tmp_path: Path) -> None:
    with serving(site) as server:
        made = fetch(tmp_path, server.address, "Q1", depth=1, date=datetime.date(2021, 1, 4))
        assert fetched(made) == {"Q1": 10, "Q2": 11, "P6": 14, "P31": 15}
        with pytest.raises(SourceError, match="has none of these items"):
            fetch(tmp_path / "early", server.address, "Q1", date=datetime.date(2001, 1, 1))


@pytest.mark.parametrize("later", [0, 1])
def test_a_day_that_is_not_over_is_refused(tmp_path: Path, later: int) -> None:
    day = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=later)
    with serving(site) as server:
        with pytest.raises(SourceError, match=f"{day} is not over yet"):
            fetch(tmp_path, server.address, "Q1", date=day)
        assert server.paths == []
    assert list(tmp_path.iterdir()) == []


def test_an_item_is_at_the_revision_asked_for(tmp_path: Path) -> None:
    with serving(site) as server:
        made = fetch(tmp_path, server.address, "Q1", revisions=(("Q1", 10),), properties=False)
    assert fetched(made) == {"Q1": 10}


def test_redirects_and_missing_items_are_told_and_the_snapshot_is_a_slice(tmp_path: Path) -> None:
    with serving(site) as server:
        made = fetch(tmp_path, server.address, "Q9", "Q3", "Q404")
    assert made.unknown == ("Q404",)
    assert made.redirects is not None
    assert made.redirects.read_text(encoding="utf-8") == "Q9\tQ3\n"
    snapshot = load(
        tmp_path / "home", made.path, "2023-01-01", redirects=made.redirects, slice_of=slice_note(made.path)
    )
    assert (snapshot.manifest["entities"], snapshot.manifest["redirected"]) == (2, 1)
    assert snapshot.manifest["slice_of"] == f"3 items, by {server.address}"


def test_redirects_of_an_earlier_fetch_are_removed_with_its_file(tmp_path: Path) -> None:
    with serving(site) as server:
        before = fetch(tmp_path, server.address, "Q9").redirects
        assert before is not None
        again = fetch(tmp_path, server.address, "Q3", overwrite=True)
    assert (again.redirects, before.exists()) == (None, False)


def test_what_is_busy_breaks_off_or_answers_with_a_page_is_asked_again(tmp_path: Path) -> None:
    faults: list[Answer] = [
        (503, {"Retry-After": "1"}, b"busy"), (200, {"Content-Length": "5000"}, b'{"entities": {'), (200, {}, b"<html>")
    ]  # fmt: skip
    with serving(faulty(*faults)) as server:
        assert set(fetched(fetch(tmp_path, server.address, "Q1", properties=False))) == {"Q1"}
    assert len(server.paths) == 4


def test_a_fetch_that_failed_resumes_where_it_was(tmp_path: Path) -> None:
    down = True

    def failing(path: str, headers: dict[str, str], body: bytes) -> Answer:
        return (500, {}, b"") if down and "/Q3." in path else site(path, headers, body)

    with serving(failing) as server:
        with pytest.raises(SourceError, match="Asking for Q3 failed 4 times"):
            fetch(tmp_path, server.address, "Q1", "Q3", properties=False)
        assert not (tmp_path / "items.json").exists()
        down = False
        assert set(fetched(fetch(tmp_path, server.address, "Q1", "Q3", properties=False))) == {"Q1", "Q3"}
    assert sum("/Q1." in path for path in server.paths) == 1


def test_what_is_no_id_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Not an id of an item or a property: Q1;x"):
        fetch(tmp_path, "http://127.0.0.1:1", "Q1;x")


def test_a_site_that_forbids_is_told_at_once(tmp_path: Path) -> None:
    with serving(lambda path, headers, body: (403, {}, b"")) as server:
        with pytest.raises(SourceError, match="answers HTTP 403"):
            fetch(tmp_path, server.address, "Q1")
        assert len(server.paths) == 1
