"""A whole timestep of the profile: tables, funnel, cases, neighbours, and the same bytes each time."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from world.dumps import Json, hashes, load, time_value, write_dump
from world.two_days import NEW, OLD, two_snapshots
from world.updates import article, functional, number, run_steps, said, worlds

from kgedit.checksums import sha256_of
from kgedit.errors import TimestepError
from kgedit.exporters.wikifactdiff import export as write_jsonl
from kgedit.records.cases import Specificity
from kgedit.timesteps.changes import read_dropped
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import own_table
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings, export_timestep
from kgedit.timesteps.wikifactdiff.scenarios import LOST
from kgedit.verbs.describe import describe, describe_page

pytestmark = pytest.mark.slow

LABELS = {"Q1": "Arvika", "Q2": "Borgholm", "Q3": "Eksjö", "Q4": "Falun", "Q6": "Kalix"}
KINDS = {"Q1": ("Q50", "Q51"), "Q2": ("Q50",), "Q3": ("Q51",), "Q4": ("Q50",), "Q6": ("Q50", "Q51")}
LEADERS = [article(f"Q{number}", label=f"Leader {number}") for number in range(200, 210)]
SCHEMA = [
    functional("P6", "P580", "P582"), functional("P1082", "P585"), article("P31"), article("P571"),
    *(article(name, label=f"Kind {name}") for name in ("Q50", "Q51")), *LEADERS,
]  # fmt: skip


def towns(leaders: dict[str, list[Json]]) -> list[Json]:
    return [
        article(name, *(said("P31", kind) for kind in KINDS[name]), *leaders.get(name, []), label=LABELS[name])
        for name in LABELS
    ]


STEADY = {"Q4": [said("P6", "Q204")], "Q6": [said("P6", "Q206")]}
BEFORE = SCHEMA + towns(
    STEADY | {
        "Q1": [said("P6", "Q201", start="2015"), said("P1082", number("26000"), point="2019")],
        "Q3": [said("P6", "Q203", start="2015")],
    }
)  # fmt: skip
AFTER = SCHEMA + towns(
    STEADY | {
        "Q1": [said("P6", "Q207", start="2022-05"), said("P1082", number("27000"), point="2022-12-31")],
        "Q2": [said("P6", "Q208", start="2022-01-01")],
        "Q3": [said("P6", "Q203", start="2015", end="2022-02")],
    }
)  # fmt: skip


def export(folder: Path, old: list[Json] = BEFORE, new: list[Json] = AFTER, **settings: Any) -> Timestep:
    return export_timestep(
        *two_snapshots(folder, old, new), folder / "timestep", settings=WikiFactDiffSettings(**settings)
    )


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return export(tmp_path_factory.mktemp("exported"))


def scenarios(timestep: Timestep) -> dict[str, str]:
    rows = own_table(timestep, "updates").to_pylist()
    return {f"{row['subject']}:{row['property']}": row["scenario"] for row in rows}


def neighbours(timestep: Timestep, subject: str, basis: str) -> list[dict[str, Any]]:
    rows = own_table(timestep, "neighbours").to_pylist()
    return [row for row in rows if row["subject"] == subject and row["basis"] == basis]


def test_each_group_has_its_scenario(timestep: Timestep) -> None:
    assert scenarios(timestep) == {
        "Q1:P6": "ReplaceObject",
        "Q1:P1082": "ReplaceObject",
        "Q2:P6": "AddRelation",
        "Q3:P6": "Archive",
    }
    assert timestep.manifest["scenarios"] == {
        "AddEntity": 0, "Archive": 1, "AddRelation": 1, "ReplaceObject": 2, "AddObject": 0, "Other": 0
    }  # fmt: skip


def test_describe_prints_the_papers_table_of_triples(timestep: Timestep) -> None:
    """Table 2: Q1 got a head and a population in place of others, Q2 a head, Q3 lost one."""
    rows = [row for row in describe(timestep.folder).to_pylist() if row["part"] in ("all updates", "replacement set")]
    result = {(row["part"], row["name"]): row["value"] for row in rows}
    every = [value for (part, _), value in result.items() if part == "all updates"]
    # triples, subjects, relations, objects, entities, literals, updates; then the scenarios in the paper's order
    assert every == [6, 3, 2, 6, 4, 2, 4, 2, 1, 0, 1, 0, 0]
    replaced = sum(row["in_replacement_set"] for row in own_table(timestep, "updates").to_pylist())
    assert result["replacement set", "updates"] == result["replacement set", "ReplaceObject"] == replaced
    assert result["replacement set", "triples"] == 2 * replaced


def test_the_funnels_add_up(timestep: Timestep) -> None:
    funnel = timestep.manifest["funnel"]
    assert funnel["changed"] == sum(funnel["dropped"].values()) + funnel["kept"]
    assert funnel["compared"] == funnel["unchanged"] + funnel["changed"]
    assert funnel["kept"] == sum(timestep.manifest["scenarios"].values()) == own_table(timestep, "updates").num_rows
    for side in timestep.manifest["preprocessing"].values():
        assert side["read"] == sum(side["dropped"].values()) + side["kept"]


def test_what_became_no_update_is_kept_with_its_reason_and_values_of_both_sides(tmp_path: Path) -> None:
    """A mayor without dates took over: no rule says when; a more precise birth date is not a change."""
    changed = {
        "Q1": [said("P6", "Q207"), said("P571", time_value("+1500-05-00T00:00:00Z", 10))],
        "Q2": [said("P6", "Q208", start="2022-01-01")],
    }
    before = {"Q1": [said("P6", "Q201"), said("P571", time_value("+1500-00-00T00:00:00Z", 9))]}
    timestep = export(tmp_path, SCHEMA + towns(before), SCHEMA + towns(changed))
    table = read_dropped(timestep)
    assert table is not None
    rows = {(row["subject"], row["property"]): row for row in table.to_pylist()}
    mayor = rows["Q1", "P6"]
    assert (mayor["subject_label"], mayor["old_objects"], mayor["old_labels"]) == ("Arvika", ["Q201"], ["Leader 201"])
    assert (mayor["new_objects"], mayor["new_labels"]) == (["Q207"], ["Leader 207"])
    assert mayor["reason"].startswith("unknown: ")
    assert ("Q2", "P6") not in rows
    counted = Counter(row["reason"] for row in rows.values())
    assert counted == timestep.manifest["funnel"]["dropped"]
    assert timestep.manifest["tables"]["dropped"]["rows"] == len(rows)
    describe_page(timestep.folder, html=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Every change that a filter dropped" in page
    assert "holds counts of what was dropped and not the changes" not in page


def test_a_case_is_a_replaced_value_or_one_new_value(timestep: Timestep) -> None:
    cases = {f"{case.fact.subject}:{case.fact.property}": case for case in timestep.cases()}
    assert {name: (case.tag, case.answer, case.old_answers) for name, case in cases.items()} == {
        "Q1:P6": ("update", "Leader 207", ("Leader 201",)),
        "Q1:P1082": ("update", "27,000", ("26,000",)),
        "Q2:P6": ("new", "Leader 208", ()),
    }
    result = {name: case.scenario for name, case in cases.items()}
    assert result == {"Q1:P6": "ReplaceObject", "Q1:P1082": "ReplaceObject", "Q2:P6": "AddRelation"}
    assert cases["Q1:P6"].question == "Who is the head of government of Arvika?"
    axes = {probe.axis for probe in cases["Q1:P6"].probes}
    assert axes == {"update", "rephrase", "personas", "locality", "random_locality"}


def test_a_case_without_a_scenario_takes_it_from_its_update(timestep: Timestep, tmp_path: Path) -> None:
    """As in timesteps of earlier versions."""
    older = tmp_path / "older"
    shutil.copytree(timestep.folder, older)
    cases = pq.read_table(older / "cases.parquet").drop(["scenario"])
    pq.write_table(cases, older / "cases.parquet")
    (older / "created_entities.parquet").unlink()
    opened = Timestep(older, timestep.manifest)
    assert own_table(opened, "created_entities").num_rows == 0
    assert [case.scenario for case in opened.cases()] == [case.scenario for case in timestep.cases()]


def test_neighbours_are_unchanged_facts_about_the_most_similar_subjects(timestep: Timestep) -> None:
    # Kalix is of both kinds that Arvika is of, Falun of one; Eksjö's and Borgholm's leaders changed.
    near = neighbours(timestep, "Q1", "nearest")
    assert [(row["neighbour_label"], row["object_label"]) for row in near if row["property"] == "P6"] == [
        ("Kalix", "Leader 206"),
        ("Falun", "Leader 204"),
    ]
    assert [row["place"] for row in near if row["property"] == "P6"] == [1, 2]
    assert near[0]["similarity"] > near[1]["similarity"] > 0
    (probe,) = (
        probe
        for case in timestep.cases()
        if case.fact.object == "Q207"
        for probe in case.probes
        if probe.axis == "locality"
    )
    assert (probe.facts[0].subject, probe.answers) == ("Q6", ("Leader 206",))


def test_random_neighbours_are_drawn_from_those_of_all(timestep: Timestep, tmp_path: Path) -> None:
    drawn = neighbours(timestep, "Q2", "random")
    assert {row["neighbour"] for row in drawn} <= {"Q4", "Q6"}
    assert drawn
    assert all(row["similarity"] is None for row in drawn)


def test_a_case_asks_as_many_neighbours_as_are_wanted_and_none_with_its_own_object(timestep: Timestep) -> None:
    def asked(axis: str, most: int | None) -> list[str]:
        (case,) = (case for case in timestep.cases(neighbours=most) if case.fact.object == "Q207")
        return [probe.facts[0].subject for probe in case.probes if probe.axis == axis]

    assert asked("locality", 10) == ["Q6", "Q4"]
    assert asked("locality", 1) == asked("locality", None) == ["Q6"]
    drawn = neighbours(timestep, "Q1", "random")
    expected = [row["neighbour"] for row in drawn if row["property"] == "P6" and row["object"] not in ("Q207", "Q201")]
    assert asked("random_locality", 10) == expected
    assert asked("random_locality", None) == expected[:1]
    (case,) = (case for case in timestep.cases() if case.fact.object == "Q207")
    near = next(probe for probe in case.probes if probe.axis == "locality")
    assert near.cloze == "The head of government of Kalix is"
    assert near.similarity == neighbours(timestep, "Q1", "nearest")[0]["similarity"]
    assert near.popularity is None


def test_known_facts_are_old_answers_and_then_neighbours(timestep: Timestep, tmp_path: Path) -> None:
    assert [known.answer for known in timestep.known_facts()][:2] == ["26,000", "Leader 201"]
    assert len(export(tmp_path, known_facts=1).known_facts()) == 1


def test_the_same_snapshots_give_the_same_bytes_whatever_the_order_of_lines(timestep: Timestep, tmp_path: Path) -> None:
    tables = {name: digest for name, digest in hashes(timestep.folder).items() if name.endswith(".parquet")}
    assert len(tables) == 9
    again = hashes(export(tmp_path / "again").folder)
    assert again == hashes(timestep.folder)
    shuffled = [random.Random(5).sample(items, len(items)) for items in (BEFORE, AFTER)]
    other = hashes(export(tmp_path / "shuffled", *shuffled).folder)
    assert {name: other[name] for name in tables} == tables


def test_nothing_changed_gives_a_whole_timestep_without_updates(tmp_path: Path) -> None:
    empty = export(tmp_path, BEFORE, BEFORE)
    assert not scenarios(empty)
    assert list(empty.cases()) == []
    assert write_jsonl(empty).read_text() == ""


def test_popularity_sorts_the_groups(tmp_path: Path) -> None:
    views = tmp_path / "pageviews-202301-user"
    read = {"Borgholm": 900, "Falun": 10, "Eksjö": 90}
    views.write_text("".join(f"en.wikipedia {name} 1 desktop {n} A{n}\n" for name, n in read.items()), encoding="utf-8")
    counts = tmp_path / "counts.tsv"
    counts.write_text("Borgholm\t3\nQ2\t6\nQ208\t4\nLeader 208\t5\n", encoding="utf-8")
    popular = export(tmp_path, pageviews=(views,), counts=counts)
    rows = own_table(popular, "updates").to_pylist()
    # Arvika takes the mean of Borgholm and Falun, which are of its kind.
    assert [row["subject"] for row in rows] == ["Q2", "Q1", "Q1", "Q3"]
    assert [row["popularity_basis"] for row in rows] == ["page views", "class", "class", "page views"]
    assert popular.manifest["settings"]["pageviews"].keys() == {views.name}
    result = {row["neighbour"]: row["popularity"] for row in own_table(popular, "neighbours").to_pylist()}
    assert result["Q4"] == pytest.approx(math.log(11), abs=1e-6), "Falun was read ten times a month"
    (known,) = (case.popularity for case in popular.cases() if case.fact.subject == "Q2")
    assert known == pytest.approx(math.log(901), abs=1e-6)
    (specificity,) = (case.specificity for case in popular.cases() if case.fact.subject == "Q2")
    assert specificity == Specificity(900, 0, 6, 4), "an id goes before a label"
    assert any(probe.popularity is not None for case in popular.cases() for probe in case.probes)


def test_a_selection_is_recorded_so_that_another_is_not_taken_for_the_same(tmp_path: Path) -> None:
    only = tmp_path / "only.csv"
    only.write_text("subject,property\nQ2,P6\n", encoding="utf-8")
    selected = export(tmp_path / "selected", only=only)
    assert {case.fact.subject for case in selected.cases()} == {"Q2"}
    everything = export(tmp_path / "everything").manifest["settings"]
    assert selected.manifest["settings"] == everything | {"only": sha256_of(only)}


def test_the_snapshots_must_be_in_order_and_a_compatibility_must_exist(tmp_path: Path) -> None:
    old, new = two_snapshots(tmp_path, BEFORE, AFTER)
    with pytest.raises(TimestepError, match=f"{NEW} is not before {OLD}: give the older day first"):
        export_timestep(new, old, tmp_path / "timestep", settings=WikiFactDiffSettings())
    with pytest.raises(TimestepError, match="no compatibility 'wikifactdiff-2025'"):
        export_timestep(old, new, tmp_path / "timestep", settings=WikiFactDiffSettings(compat="wikifactdiff-2025"))
    assert not (tmp_path / "timestep").exists()


def test_the_released_code_loses_what_follows_the_last_thousand_and_that_is_counted(tmp_path: Path) -> None:
    released = export(tmp_path, compat="wikifactdiff-2024")
    funnel = released.manifest["funnel"]
    # Arvika, the first entity, is written; of the other two nothing is. Eksjö's group had the same value twice.
    assert set(scenarios(released)) == {"Q1:P6", "Q1:P1082"}
    assert funnel["dropped"][LOST] == 0
    assert funnel["changed"] == sum(funnel["dropped"].values()) + funnel["kept"]
    kept = read_dropped(released)
    assert kept is not None
    assert kept.num_rows == sum(funnel["dropped"].values())
    assert released.manifest["settings"]["compat"]["functional_relations_by_first_rules_only"]


def test_a_line_of_the_published_form_has_its_fields(timestep: Timestep) -> None:
    lines = [json.loads(line) for line in write_jsonl(timestep).read_text(encoding="utf-8").splitlines()]
    line = next(line for line in lines if line["subject"]["id"] == "Q1" and line["relation"]["id"] == "P1082")
    assert line["objects"] == [
        {"label": "27,000", "description": "Quantity", "aliases": ["27000"], "decision": "new"},
        {"label": "26,000", "description": "Quantity", "aliases": ["26000"], "decision": "obsolete"},
    ]
    assert (line["is_replace"], line["relation_is_temp_func"], line["subject_is_ph_new"]) == (True, True, False)
    leader = next(line for line in lines if line["subject"]["id"] == "Q1" and line["relation"]["id"] == "P6")
    assert leader["update_prompt"] == "The head of government of Arvika is ____"
    assert leader["objects"][0] == {"id": "Q207", "label": "Leader 207"} | {
        "description": None,
        "aliases": [],
        "decision": "new",
    }
    near = leader["neighborhood"][0]
    assert near["objects"] == [
        {
            "object": {"id": "Q206", "label": "Leader 206", "description": None, "aliases": []},
            "prompt": "The head of government of Kalix is ____",
        }
    ]
    assert 0 < near["dist"] < 1


def test_an_entity_merged_into_another_is_no_change(tmp_path: Path) -> None:
    home = tmp_path / "home"
    twin = [article("Q301", said("P6", "Q201"), label="Twin"), article("Q300", label="Town")]
    merged = [article("Q300", said("P6", "Q211"), label="Town"), article("Q211", label="Leader 201")]
    redirects = tmp_path / "redirects.tsv"
    redirects.write_text("Q301\tQ300\nQ201\tQ211\n", encoding="utf-8")
    before = load(home, write_dump(tmp_path / "old.json", [*SCHEMA, *twin]), OLD)
    kept = [one for one in SCHEMA if one["id"] != "Q201"]
    after = load(home, write_dump(tmp_path / "new.json", [*kept, *merged]), NEW, redirects=redirects)
    made = export_timestep(before, after, tmp_path / "timestep", settings=WikiFactDiffSettings())
    assert made.manifest["difference"] == {
        "only in the older": 0, "only in the newer": 0, "in both": 1, "in both, date refined": 0
    }  # fmt: skip
    assert made.manifest["new_entities"]["only in the newer snapshot"] == 0


def test_a_new_entity_is_described_by_the_newer_snapshot(tmp_path: Path) -> None:
    founded = said("P571", time_value("+2022-03-01T00:00:00Z", 11))
    town = article("Q7", said("P31", "Q50"), said("P31", "Q51"), said("P6", "Q209"), founded, label="Hjo")
    made = export(tmp_path, BEFORE, [*AFTER, town])
    assert {name: scenario for name, scenario in scenarios(made).items() if name.startswith("Q7")} == {
        "Q7:P6": "AddEntity",
        "Q7:P31": "AddEntity",
        "Q7:P571": "AddEntity",
    }
    (created,) = own_table(made, "created_entities").to_pylist()
    assert (created["id"], created["label"], created["created"], created["property"]) == (
        *("Q7", "Hjo", "2022-03-01", "P571"),
    )
    result = {row["name"]: row["value"] for row in describe(made.folder).to_pylist() if "new entities" in row["part"]}
    assert result == {"Item P571 (P571)": 1, "Hjo (Q7): Item P571 (P571) 2022-03-01": None}
    near = [row["neighbour_label"] for row in neighbours(made, "Q7", "nearest") if row["property"] == "P6"]
    assert near == ["Kalix", "Falun"]
    # Two classes at once are no case for an edit; one leader is.
    assert {case.fact.property for case in made.cases() if case.fact.subject == "Q7"} == {"P6", "P571"}


def test_of_replaced_populations_one_in_fourteen_is_in_the_replacement_set_by_seed(tmp_path: Path) -> None:
    grown = (
        [said("P1082", number("7"), point="2019"), said("P6", "Q101", start="2015")],
        [said("P1082", number("8"), point="2022-06-01"), said("P6", "Q102", start="2022-06-01")],
    )
    snapshots = two_snapshots(tmp_path, *worlds({f"Town {place}": grown for place in range(280)}))
    drawn = []
    for seed in (0, 0, 1):
        window, _ = run_steps(*snapshots, tmp_path, seed=seed)
        with window:
            rows = window.connection.execute(
                "SELECT subject, property FROM update_group WHERE in_replacement_set"
            ).fetchall()
        assert sum(property_id == "P6" for _, property_id in rows) == 280
        drawn.append({subject for subject, property_id in rows if property_id == "P1082"})
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(8 <= len(towns) <= 36 for towns in drawn)


def test_what_a_slice_lacks_is_neither_new_nor_removed(tmp_path: Path) -> None:
    town = article("Q7", said("P6", "Q209"), said("P571", time_value("+2022-03-01T00:00:00Z", 11)), label="Hjo")
    with_town = [*AFTER, town]
    without_q1 = [one for one in with_town if one["id"] != "Q1"]
    old, new = (write_dump(tmp_path / f"{name}.json", items) for name, items in (("o", BEFORE), ("n", without_q1)))
    before = load(tmp_path / "home", old, OLD, slice_of="towns of a list")
    after = load(tmp_path / "home", new, NEW, slice_of="towns of a list")
    made = export_timestep(before, after, tmp_path / "timestep", settings=WikiFactDiffSettings())
    assert made.manifest["new_entities"] | {"without a date of creation": 0} == {
        "only in the newer snapshot": 1, "without a date of creation": 0,
        "created at another time, or perhaps": 1, "new": 0,
    }  # fmt: skip
    assert {name.split(":")[0] for name in scenarios(made)} == {"Q2", "Q3"}
    assert [snapshot["slice_of"] for snapshot in made.manifest["snapshots"]] == ["towns of a list"] * 2
