"""Valid answers and questions: spellings of literals, aliases of items, and no ids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from world.dumps import Json, entity, time_value
from world.two_days import two_snapshots
from world.updates import article, functional, number, said

from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import own_table
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings, export_timestep

UNNAMED = "P99999"
"""A property that has a label neither in the snapshots nor in the catalogue."""


def leader(name: str, label: str, *aliases: str) -> Json:
    links = {"enwiki": {"site": "enwiki", "title": label, "badges": []}}
    named = [{"language": "en", "value": alias} for alias in aliases]
    return entity(name, label=label, aliases={"en": named}, sitelinks=links)


SCHEMA = [
    functional("P6", "P580", "P582"), functional("P1082", "P585"), functional("P571"), functional(UNNAMED, "P585"),
    functional("P2046", "P585"), article("P31"), article("Q50", label="town"), article("Q60", label="square kilometre"),
    leader("Q201", "Ada Berg", "A. Berg"), leader("Q202", "Bo Dahl", "B. Dahl", "Arvika"),
]  # fmt: skip
SCHEMA = [entry | ({"labels": {}} if entry["id"] == UNNAMED else {}) for entry in SCHEMA]
FALUN = article("Q4", said("P31", "Q50"), said("P1082", number("51604")), said(UNNAMED, "Q201"), label="Falun")
BEFORE = [
    said("P31", "Q50"), said("P6", "Q201", start="2015"), said("P1082", number("26000"), point="2019"),
    said("P2046", number("7.50", "Q60"), point="2019"), said(UNNAMED, "Q201", point="2019"),
]  # fmt: skip
AFTER = [
    said("P31", "Q50"), said("P6", "Q202", start="2022-05"), said("P1082", number("27000"), point="2022-12-31"),
    said("P2046", number("8.25", "Q60"), point="2022-12-31"), said(UNNAMED, "Q202", point="2022-12-31"),
    said("P571", time_value("+1611-11-08T00:00:00Z", 11), start="2022-05"),
]  # fmt: skip


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    folder: Path = tmp_path_factory.mktemp("exported")
    snapshots = two_snapshots(
        folder,
        [*SCHEMA, FALUN, article("Q1", *BEFORE, label="Arvika")],
        [*SCHEMA, FALUN, article("Q1", *AFTER, label="Arvika")],
    )
    return export_timestep(*snapshots, folder / "timestep", settings=WikiFactDiffSettings())


@pytest.mark.slow
def test_a_case_accepts_the_aliases_of_its_answer_and_the_spellings_of_a_literal(timestep: Timestep) -> None:
    accepted = {case.fact.property: case.probes[0].answers for case in timestep.cases()}
    assert accepted["P6"] == ("Bo Dahl", "B. Dahl"), "Arvika is the subject"
    assert accepted["P1082"] == ("27,000", "27000")
    assert accepted["P2046"][0] == "8.25 square kilometres"
    assert {"8.25", "8.25 square kilometre"} <= set(accepted["P2046"])
    assert accepted["P571"][0] == "8 November 1611"
    assert {"November 8, 1611", "8th November 1611", "1611-11-08"} <= set(accepted["P571"])


def test_locality_accepts_the_spellings_of_a_literal_too(timestep: Timestep) -> None:
    (probe,) = (
        probe
        for case in timestep.cases()
        if case.fact.property == "P1082"
        for probe in case.probes
        if probe.axis == "locality"
    )
    assert probe.answers == ("51,604", "51604")


def test_a_property_without_any_label_is_dropped_and_counted(timestep: Timestep) -> None:
    assert timestep.manifest["funnel"]["dropped"]["no label of the property"] == 1
    asked = [text for case in timestep.cases() for probe in case.probes for text in (probe.question, *probe.answers)]
    for table in ("updates", "neighbours"):
        asked += [row["question"] for row in own_table(timestep, table).to_pylist()]
    assert len(asked) > 10
    assert [text for text in asked if re.search(r"\b[PQ]\d+\b", text)] == []


NAMED = (("Q1", "Arvika"), ("Q2", "Mora"))


@pytest.mark.slow
def test_a_subject_that_shares_its_name_is_no_case_and_no_neighbour(tmp_path: Path) -> None:
    still = article("Q5", said("P31", "Q50"), said("P1082", number("40000")), label="Arvika")
    before, after = (
        [*SCHEMA, still, *(article(name, said("P31", "Q50"), population, label=label) for name, label in NAMED)]
        for population in (
            said("P1082", number("26000"), point="2019"),
            said("P1082", number("27000"), point="2022-12-31"),
        )
    )
    exported = export_timestep(
        *two_snapshots(tmp_path, before, after), tmp_path / "timestep", settings=WikiFactDiffSettings()
    )
    reason = "another item has the same name"
    assert [case.fact.subject for case in exported.cases()] == ["Q2"]
    counts = exported.manifest["final_filters"]
    assert counts["update"] == {"judged": 2, "passed": 1, "failed": {reason: 1}}
    assert counts["locality"] == {"judged": 1, "passed": 0, "failed": {reason: 1}}
    assert set(own_table(exported, "neighbours")["question"].to_pylist()) == {None}


def test_a_hint_that_contains_an_answer_or_its_alias_is_passed_over(tmp_path: Path) -> None:
    def town(name: str, description: str, *statements: Json) -> Json:
        described = {"descriptions": {"en": {"language": "en", "value": description}}}
        return article(name, said("P31", "Q50"), *statements, label="Arvika") | described

    country, rest = said("P17", "Q34"), [*SCHEMA, article("Q34", label="Sweden"), article("P17")]
    before, after = (
        [*rest, town("Q1", "town led by B. Dahl", country, leads), town("Q2", "hamlet of Bo Dahl", leads)]
        for leads in (said("P6", "Q201", start="2015"), said("P6", "Q202", start="2022-05"))
    )
    exported = export_timestep(
        *two_snapshots(tmp_path, before, after), tmp_path / "timestep", settings=WikiFactDiffSettings()
    )
    assert [case.question for case in exported.cases()] == ["Who is the head of government of Arvika (Sweden)?"]
    assert exported.manifest["final_filters"]["update"]["failed"] == {"another item has the same name": 1}
