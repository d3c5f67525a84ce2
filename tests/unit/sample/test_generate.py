"""Dumps of write-sample: form, bytes, and number of changes."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kgedit.cli import main
from kgedit.sample import SOURCE
from kgedit.sample.generate import SNAPSHOT_DATES, write_world

Facts = dict[tuple[str, str], set[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sample")
    write_world(target)
    return target


@pytest.fixture(scope="module")
def snapshots(folder: Path) -> list[dict[str, dict[str, Any]]]:
    """For each snapshot, its entities by id, read without any code of the package."""
    return [{entity["id"]: entity for entity in _entities(folder / name)} for name in _dump_names()]


def _dump_names() -> list[str]:
    return [f"{day:%Y%m%d}.json.gz" for day in SNAPSHOT_DATES]


def _entities(path: Path) -> list[dict[str, Any]]:
    lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    return [json.loads(line.removesuffix(",")) for line in lines[1:-1]]


def _span(time: dict[str, Any]) -> tuple[date, date]:
    """The first and the last day that a time value may mean."""
    year, month, day = int(time["time"][1:5]), int(time["time"][6:8]), int(time["time"][9:11])
    if time["precision"] == 11:
        return date(year, month, day), date(year, month, day)
    if time["precision"] == 10:
        return date(year, month, 1), date(year + month // 12, month % 12 + 1, 1)
    return date(year, 1, 1), date(year + 1, 1, 1)


def _holds(claim: dict[str, Any], on: date) -> bool:
    qualifiers = claim.get("qualifiers", {})
    for end in qualifiers.get("P582", []):
        if end["snaktype"] == "somevalue" or _span(end["datavalue"]["value"])[1] <= on:
            return False
    return all(_span(start["datavalue"]["value"])[0] <= on for start in qualifiers.get("P580", []))


def _current(entities: dict[str, dict[str, Any]], on: date) -> Facts:
    """The current objects of each (item, property): begun, not ended, of best rank."""
    facts: Facts = {}
    for entity in entities.values():
        for property_id, claims in (entity["claims"] or {}).items():
            ranked: dict[str, set[str]] = defaultdict(set)
            for claim in claims:
                snak = claim["mainsnak"]
                if snak["snaktype"] == "value" and snak["datatype"] == "wikibase-item" and _holds(claim, on):
                    ranked[claim["rank"]].add(snak["datavalue"]["value"]["id"])
            objects = ranked.get("preferred") or ranked.get("normal")
            if objects and entity["type"] == "item":
                facts[entity["id"], property_id] = objects
    return facts


def _clear_changes(before: dict[str, Any], after: dict[str, Any], step: int) -> dict[tuple[str, str], str]:
    """Changed pairs that outlive the usual filters: one object, labels of two letters to five words, no circle."""
    old, new = _current(before, SNAPSHOT_DATES[step]), _current(after, SNAPSHOT_DATES[step + 1])
    changes = {}
    for (subject, property_id), objects in new.items():
        if property_id in ("P31", "P279") or subject not in before or len(objects) != 1:
            continue
        (value,) = objects
        labels = [after[each]["labels"].get("en", {"value": ""})["value"] for each in (subject, value)]
        plain = all(len(label) > 1 and len(label.split()) <= 5 for label in labels)
        if plain and value != subject and value not in old.get((subject, property_id), set()):
            changes[subject, property_id] = value
    return changes


def test_each_line_between_the_brackets_is_one_entity_and_all_but_the_last_end_in_a_comma(folder: Path) -> None:
    for name in _dump_names():
        lines = gzip.decompress((folder / name).read_bytes()).decode("ascii").splitlines()
        assert (lines[0], lines[-1]) == ("[", "]")
        assert all(line.endswith("},") for line in lines[1:-2])
        assert lines[-2].endswith("}")
        assert all({"id", "type", "claims", "lastrevid"} <= json.loads(line.rstrip(",")).keys() for line in lines[1:-1])


def test_the_same_source_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    assert [path.read_bytes() for path in write_world(tmp_path)] == [
        (folder / name).read_bytes() for name in [*_dump_names(), "redirects.tsv"]
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*_dump_names(), "redirects.tsv"])


def test_ids_stand_in_no_order_and_an_empty_map_of_claims_is_written_as_a_list(folder: Path) -> None:
    entities = _entities(folder / _dump_names()[0])
    ids = [entity["id"] for entity in entities]
    assert ids != sorted(ids, key=lambda each: int(each[1:]))
    assert any(entity["claims"] == [] for entity in entities)
    assert any(int(each[1:]) > 20_000_000 for each in ids)


def test_items_and_properties_are_spelled_as_in_a_dump_of_today(snapshots: list[dict[str, Any]]) -> None:
    claim = snapshots[1]["Q183"]["claims"]["P6"][0]
    assert claim["mainsnak"]["datavalue"]["value"] == {"entity-type": "item", "numeric-id": 567, "id": "Q567"}
    assert claim["mainsnak"]["datatype"] == "wikibase-item"
    assert claim["qualifiers-order"] == ["P580", "P582", "P1366"]
    assert claim["references"][0]["snaks"]["P248"][0]["datavalue"]["value"]["id"] == "Q9531"
    assert snapshots[1]["P6"]["datatype"] == "wikibase-item"
    assert snapshots[1]["Q183"]["sitelinks"]["enwiki"]["title"] == "Germany"
    assert "sitelinks" not in snapshots[1]["P6"]


def test_a_statement_keeps_its_guid_when_it_is_edited(snapshots: list[dict[str, Any]]) -> None:
    held = [snapshot["Q18618891"]["claims"]["P39"][0] for snapshot in snapshots]
    assert [claim["mainsnak"]["datavalue"]["value"]["id"] for claim in held] == ["Q19056310", "Q866725", "Q866725"]
    assert len({claim["id"] for claim in held}) == 1


def test_no_two_statements_of_a_snapshot_share_a_guid(snapshots: list[dict[str, Any]]) -> None:
    for snapshot in snapshots:
        guids = Counter(
            claim["id"]
            for entity in snapshot.values()
            for claims in (entity["claims"] or {}).values()
            for claim in claims
        )
        assert max(guids.values()) == 1


def test_lastrevid_moves_exactly_when_the_entity_changed(snapshots: list[dict[str, Any]]) -> None:
    for before, after in pairwise(snapshots):
        for each in before.keys() & after.keys():
            result = before[each]["lastrevid"] != after[each]["lastrevid"]
            content = [{**entity, "lastrevid": 0, "modified": ""} for entity in (before[each], after[each])]
            assert result == (content[0] != content[1]), each


def test_a_merged_item_is_gone_and_its_redirect_is_told(folder: Path, snapshots: list[dict[str, Any]]) -> None:
    assert (folder / "redirects.tsv").read_text(encoding="utf-8") == "Q19056310\tQ866725\t20230227\n"
    assert ["Q19056310" in snapshot for snapshot in snapshots] == [True, False, False]


@pytest.mark.parametrize("step", [0, 1])
def test_enough_facts_change_in_each_step_and_enough_stay(snapshots: list[dict[str, Any]], step: int) -> None:
    before, after = snapshots[step], snapshots[step + 1]
    changes = _clear_changes(before, after, step)
    old, new = _current(before, SNAPSHOT_DATES[step]), _current(after, SNAPSHOT_DATES[step + 1])
    kinds = {property_id for _, property_id in changes}
    kept = [pair for pair, objects in old.items() if new.get(pair) == objects and pair[1] in kinds]
    assert len(changes) >= 60
    readme = SOURCE.with_name("README.md").read_text(encoding="utf-8")
    assert f"{len(changes)} pairs of step {step + 1}" in readme
    assert len(kinds) >= 12
    assert len(kept) >= len(changes) / 2


def test_at_least_fifteen_properties_change_in_one_step_or_the_other(snapshots: list[dict[str, Any]]) -> None:
    kinds = {pair[1] for step in (0, 1) for pair in _clear_changes(snapshots[step], snapshots[step + 1], step)}
    assert len(kinds) >= 15


@pytest.mark.parametrize("step", [0, 1])
def test_enough_changed_facts_chain_into_two_hops(snapshots: list[dict[str, Any]], step: int) -> None:
    changes = _clear_changes(snapshots[step], snapshots[step + 1], step)
    by_subject = defaultdict(list)
    for (subject, _), value in changes.items():
        by_subject[subject].append(value)
    chains = [(subject, middle, end) for (subject, _), middle in changes.items() for end in by_subject[middle]]
    assert len([chain for chain in chains if chain[2] != chain[0]]) >= 10
    assert any(end == subject for subject, _, end in chains)


def test_the_command_prints_what_it_wrote_and_does_not_replace_it_unasked(tmp_path: Path) -> None:
    first = CliRunner().invoke(main, ["write-sample", str(tmp_path / "sample")])
    assert first.output.splitlines() == [str(tmp_path / "sample" / name) for name in [*_dump_names(), "redirects.tsv"]]
    second = CliRunner().invoke(main, ["write-sample", str(tmp_path / "sample")])
    assert second.exit_code == 1
    assert "--overwrite" in second.output
    assert CliRunner().invoke(main, ["write-sample", str(tmp_path / "sample"), "--overwrite"]).exit_code == 0
