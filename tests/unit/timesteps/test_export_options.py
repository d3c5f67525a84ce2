"""Options of an export: which relations count as functional, questions that name the day, probes that changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from world.dumps import Json
from world.two_days import about, item, two_snapshots
from world.updates import article, functional, said

from kgedit.errors import TimestepError
from kgedit.exporters.wikibigedit import export as wikibigedit
from kgedit.timesteps.audit import audit_edits
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import own_table
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings
from kgedit.timesteps.wikifactdiff.export import export_timestep as export_wikifactdiff
from kgedit.verbs.home import Home

pytestmark = pytest.mark.slow

NAMES = ("Arvika", "Borgholm", "Eksjö", "Falun", "Gnosjö", "Hjo", "Kalix")
PEOPLE = [item(f"Q{number}", label=f"Leader {number}") for number in range(201, 220)]
CLUBS = [item(f"Q{number}", label=f"Club {number}") for number in range(301, 310)]
SCHEMA = [
    item("P463", label="member of"),
    {**functional("P6", "P580"), "labels": {"en": {"language": "en", "value": "head"}}},
]


def towns(leaders: str, clubs: dict[int, str]) -> list[Json]:
    """Towns Q1, Q2, ...: with the leader that a digit names, 0 for none, and their clubs."""
    return [
        item(
            f"Q{number}",
            *((about("P6", f"Q20{digit}"),) if digit != "0" else ()),
            *(about("P463", f"Q30{club}") for club in clubs.get(number, "")),
            label=name,
        )
        for number, (name, digit) in enumerate(zip(NAMES, leaders, strict=True), start=1)
    ]


CLUBS_BEFORE = {1: "1", 2: "12", 3: "12", 4: "23", 5: "13", 6: "4"}
CLUBS_AFTER = CLUBS_BEFORE | {1: "5"}
OLD = [*SCHEMA, *PEOPLE, *CLUBS, *towns("1203456", CLUBS_BEFORE)]
NEW = [*SCHEMA, *PEOPLE, *CLUBS, *towns("7283456", CLUBS_AFTER)]
"""Arvika has another leader and another club, Eksjö its first leader."""


def export(folder: Path, **settings: Any) -> Timestep:
    before, after = two_snapshots(folder, OLD, NEW)
    return export_timestep(
        StoreEngine(),
        before,
        after,
        folder / "timestep",
        settings=WikiBigEditSettings(**settings),
        writers=(wikibigedit,),
    )


def changed_relations(timestep: Timestep) -> list[str]:
    return [f"{case.fact.subject}:{case.fact.property}" for case in timestep.cases()]


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    """An export without options, which tests only read."""
    return export(tmp_path_factory.mktemp("default"))


def test_by_default_each_subjects_own_values_decide(by_default: Timestep) -> None:
    assert changed_relations(by_default) == ["Q1:P463", "Q1:P6", "Q3:P6"]
    assert by_default.manifest["settings"]["functional_by"] == {"verdict": "values"}


@pytest.mark.parametrize(
    ("by", "reason"),
    [("data", "relation of several values by the data"), ("constraints", "relation without a single-value constraint")],
)
def test_changes_of_relations_that_take_several_values_are_dropped_and_counted_if_that_is_asked_for(
    tmp_path: Path, by: str, reason: str
) -> None:
    timestep = export(tmp_path, functional_by=by)
    assert changed_relations(timestep) == ["Q1:P6", "Q3:P6"]
    funnel = timestep.manifest["funnel"]
    assert funnel["dropped"][reason] == 1
    assert funnel["changed"] == sum(funnel["dropped"].values()) + funnel["kept"]
    assert timestep.manifest["settings"]["functional_by"]["verdict"] == by


def test_a_verdict_that_a_profile_does_not_know_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(TimestepError, match="It has: constraints, data"):
        home.export_timestep("2021-01-04", "2023-02-27", profile="wikifactdiff", functional_by="values")
    with pytest.raises(TimestepError, match="add profile wikibigedit"):
        home.export_timestep("2021-01-04", "2023-02-27", profile="wikifactdiff", changed_locality=True)


def test_every_case_has_the_day_on_which_its_fact_holds(by_default: Timestep) -> None:
    timestep = by_default
    assert {case.as_of for case in timestep.cases()} == {"2023-02-27"}
    assert {case.as_of for case in open_edits(timestep.folder / "wikibigedit.json").cases()} == {"2023-02-27"}
    assert not any("As of" in probe.question for case in timestep.cases() for probe in case.probes)
    assert timestep.manifest["settings"]["ask_as_of"] is None


def test_questions_say_of_which_day_they_ask_and_known_facts_of_the_older_day(tmp_path: Path) -> None:
    timestep = export(tmp_path, ask_as_of=True)
    for case in timestep.cases():
        assert case.cloze.startswith("As of 27 February 2023, ")
        assert all(probe.question.startswith("As of 27 February 2023, ") for probe in case.probes)
    assert len({probe.axis for case in timestep.cases() for probe in case.probes}) == 4
    known = timestep.known_facts()
    assert known
    assert all(fact.question.startswith("As of 4 January 2021, wh") for fact in known)
    assert timestep.manifest["settings"]["ask_as_of"]


def test_a_changed_fact_that_is_no_case_may_be_a_probe_and_passes_the_audit(tmp_path: Path) -> None:
    # Eksjö's first leader is a backfill, and is left out of the cases.
    timestep = export(tmp_path, kinds=("update",), changed_locality=True)
    (probe,) = (p for case in timestep.cases() for p in case.probes if p.axis == "locality" and p.changed)
    assert (probe.facts[0].subject, probe.facts[0].property, probe.facts[0].object) == ("Q3", "P6", "Q208")
    assert timestep.manifest["locality"]["changed"] == 1
    assert timestep.manifest["settings"]["changed_locality"] is True
    # A model of the older day did not know it.
    assert ("Q3", "P6") not in {(known.fact.subject, known.fact.property) for known in timestep.known_facts()}
    old, new = Home(tmp_path / "it's a home").snapshots()
    for path in (timestep.folder, timestep.folder / "wikibigedit.json"):
        rows = audit_edits(open_edits(path), old, new, spill=tmp_path / "spill").rows.to_pylist()
        assert [row["locality"] for row in rows if "Q1:P6" in row["case_id"]] == ["valid"]


def test_a_changed_fact_that_is_a_case_itself_is_never_a_probe(tmp_path: Path) -> None:
    timestep = export(tmp_path, changed_locality=True)
    assert changed_relations(timestep) == ["Q1:P463", "Q1:P6", "Q3:P6"]
    assert not any(probe.changed for case in timestep.cases() for probe in case.probes)


def test_a_label_that_is_the_items_own_id_is_no_label(tmp_path: Path) -> None:
    named = [
        {**one, "labels": {"en": {"language": "en", "value": "Q207"}}} if one["id"] == "Q207" else one for one in NEW
    ]
    before, after = two_snapshots(tmp_path, OLD, named)
    timestep = export_timestep(StoreEngine(), before, after, tmp_path / "timestep", settings=WikiBigEditSettings())
    assert changed_relations(timestep) == ["Q1:P463", "Q3:P6"]
    assert timestep.manifest["funnel"]["dropped"]["no label in the languages asked for"] == 1


LEADERS = [article(f"Q{number}", label=f"Leader {number}") for number in range(201, 220)]


def dated_worlds() -> tuple[list[Json], list[Json]]:
    """Towns whose leaders are dated; Q1's old one vanishes without an end as a new one begins. No constraints."""
    steady = [
        article(f"Q{number}", said("P6", f"Q20{number}", start="2015"), label=name)
        for number, name in enumerate(NAMES[1:], start=2)
    ]
    shared = [article("P6"), *LEADERS, *steady]
    old = article("Q1", said("P6", "Q210"), label="Arvika")
    new = article("Q1", said("P6", "Q211", start="2022-05-01"), label="Arvika")
    return [*shared, old], [*shared, new]


def decisions(timestep: Timestep) -> dict[str, str]:
    return {row["object"]: row["decision"] for row in own_table(timestep, "objects").to_pylist()}


def test_wikifactdiff_takes_a_relation_for_temporal_functional_by_the_data_if_asked_to(tmp_path: Path) -> None:
    old, new = two_snapshots(tmp_path, *dated_worlds())
    declared = export_wikifactdiff(old, new, tmp_path / "declared", settings=WikiFactDiffSettings())
    assert decisions(declared) == {}
    measured = export_wikifactdiff(
        old, new, tmp_path / "measured", settings=WikiFactDiffSettings(functional_by="data")
    )  # fmt: skip
    # The one that a new value of a temporal functional relation replaced became obsolete.
    assert decisions(measured) == {"Q211": "new", "Q210": "obsolete"}
    assert measured.manifest["settings"]["functional_by"]["functional"] == 0.95
    assert measured.manifest["functional_relations"]["temporal functional"] == 1
    assert declared.manifest["functional_relations"]["temporal functional"] == 0
    with pytest.raises(TimestepError, match="constraints only"):
        export_wikifactdiff(
            old,
            new,
            tmp_path / "released",
            settings=WikiFactDiffSettings(functional_by="data", compat="wikifactdiff-2024"),
        )


def test_wikifactdiffs_questions_say_the_day_too(tmp_path: Path) -> None:
    old, new = two_snapshots(tmp_path, *dated_worlds())
    settings = WikiFactDiffSettings(functional_by="data", ask_as_of=True)
    timestep = export_wikifactdiff(old, new, tmp_path / "timestep", settings=settings)
    asked = pq.read_table(timestep.folder / "updates.parquet")["question"].to_pylist()
    assert asked == ["As of 27 February 2023, who is the head of government of Arvika?"]
    assert {case.as_of for case in timestep.cases()} == {"2023-02-27"}
    known = [fact.question for fact in timestep.known_facts()]
    assert "As of 4 January 2021, who is the head of government of Arvika?" in known
    assert all(question.startswith("As of 4 January 2021, ") for question in known)
