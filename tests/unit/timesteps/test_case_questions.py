"""The final filters on an export's questions: a failing one is dropped; a failing update question drops its case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from world.two_days import about, item, two_snapshots

from kgedit.timesteps.changes import read_dropped
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.filters import judge_cases, keep_probes
from kgedit.timesteps.relation_words import RelationWords
from kgedit.wording.personas import voices
from kgedit.wording.templates import template_table

WORDS = RelationWords(template_table(), voices())

CASE = {
    "case_id": "Q1:P6:Q2",
    "subject_label": "Arvika of Sweden",
    "property": "P6",
    "object_label": "Olof Gren",
    "object_aliases": ["Gren the Elder", "OG"],
    "name": "the Arvika of Sweden",
    "question": "Who is the head of government of the Arvika of Sweden?",
    "rephrase": "Who heads the government of the Arvika of Sweden?",
    "rephrases": [
        "Who heads the government of the Arvika of Sweden?",
        "Who is in charge of the government of the Arvika of Sweden?",
        "Who leads the government of the Arvika of Sweden?",
    ],
    "clozes": ["The head of government of the Arvika of Sweden is", "Olof Gren governs"],
    "persona": "pirate",
    "personas": "Who be the cap'n at the government's helm o' the Arvika of Sweden?",
}


def judged(**changed: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    rows, counts = judge_cases(pa.Table.from_pylist([CASE | changed]), WORDS)
    (row,) = rows.to_pylist()
    return row, counts


def test_a_case_whose_questions_pass_is_as_it_was() -> None:
    row, counts = judged()
    assert row["fault"] is None
    assert {name: row[name] for name in CASE} == CASE | {"clozes": CASE["clozes"][:1]}
    assert counts == {
        "personas": {"judged": 1, "passed": 1, "failed": {}},
        "rephrase": {"judged": 3, "passed": 3, "failed": {}},
        "update": {"judged": 1, "passed": 1, "failed": {}},
    }


def test_a_rephrasing_or_a_persona_that_fails_goes_alone_and_the_next_rephrasing_is_asked() -> None:
    first, *others = CASE["rephrases"]
    rephrases = [first.replace("Who", "Which Gren the Elder"), *others, CASE["question"]]
    row, counts = judged(rephrases=rephrases, personas="Who be Arvika's cap'n at the government's helm?")
    assert (row["fault"], row["rephrase"], row["rephrases"], row["personas"]) == (None, others[0], others, None)
    assert counts["rephrase"]["failed"] == {
        "it gives the answer away": 1,
        "it repeats another question of the case": 1,
    }
    assert counts["personas"] == {"judged": 1, "passed": 0, "failed": {"the subject is missing": 1}}


def test_a_persona_expresses_the_relation_in_its_own_words_and_not_in_anothers() -> None:
    asked = "What be on the captain's table o' the Arvika of Sweden?"
    assert judged(personas=asked)[0]["personas"] is None
    assert judged(personas=asked.replace("the captain's table", "the helm"))[0]["personas"]
    assert judged(personas=asked.replace("the captain's table", "the helm"), persona="detective")[0]["personas"] is None


def test_a_name_of_signs_alone_is_found_and_a_masked_singer_hides_nothing() -> None:
    row, _ = judged(name="!!!", question="Who is the head of government of !!!?")
    assert row["fault"] is None
    row, _ = judged(object_label="???", question="Who, if not ???, is the head of government of the Arvika of Sweden?")
    assert row["fault"] == "it asks more than one question"
    row, _ = judged(name="Masked Singer", question="Who is the head of government of Masked Singer?")
    assert row["fault"] is None


def test_locality_questions_that_fail_are_dropped_by_reason_and_the_rest_keep_their_order() -> None:
    names = ("subject_label", "property", "object_label", "object_aliases", "name", "question")
    rows = [{name: CASE[name] for name in names} | {"place": place} for place in (3, 2, 1)]
    rows[1]["question"] = "Who is it in the Arvika of Sweden?"
    parts = keep_probes(pa.Table.from_pylist(rows), WORDS)
    assert parts.kept["place"].to_pylist() == [3, 1]
    assert parts.dropped["reason"].to_pylist() == ["the relation is not expressed"]
    assert parts.funnel["the relation is not expressed"] == 1


@pytest.mark.slow
def test_an_export_drops_a_case_with_its_update_question_and_counts_what_fails_by_axis(tmp_path: Path) -> None:
    people = [item("Q20", label="Ada Berg"), item("Q21", label="Bo Ek"), item("Q22", label="Cy Dahl")]

    def towns(first: str, second: str) -> list[Any]:
        return [
            item("Q1", about("P6", first), label="Arvika"),
            item("Q2", about("P6", second), label="Town of Cy Dahl"),
        ]

    head = item("P6", label="head of government")
    before, after = two_snapshots(
        tmp_path, [head, *people, *towns("Q20", "Q20")], [head, *people, *towns("Q21", "Q22")]
    )
    timestep = export_timestep(StoreEngine(), before, after, tmp_path / "timestep", settings=WikiBigEditSettings())
    assert [case.fact.subject for case in timestep.cases()] == ["Q1"]
    (row,) = (row for row in read_dropped(timestep).to_pylist())  # type: ignore[union-attr]
    assert (row["subject"], row["reason"]) == ("Q2", "update question: it gives the answer away")
    assert timestep.manifest["funnel"]["dropped"][row["reason"]] == 1
    assert timestep.manifest["final_filters"]["update"] == {
        "judged": 2,
        "passed": 1,
        "failed": {"it gives the answer away": 1},
    }


@pytest.mark.slow
def test_a_subject_that_shares_its_name_is_asked_about_nowhere_and_counted(tmp_path: Path) -> None:
    people = [item(name, label=label) for name, label in (("Q20", "Ada Berg"), ("Q21", "Bo Ek"), ("Q22", "Cy Dahl"))]
    still = [item("P6", label="head of government"), *people, item("Q3", about("P6", "Q22"), label="Arvika")]
    before, after = (
        [*still, item("Q1", about("P6", leader), label="Falun"), item("Q2", about("P6", leader), label="Arvika")]
        for leader in ("Q20", "Q21")
    )
    snapshots = two_snapshots(tmp_path, before, after)
    timestep = export_timestep(StoreEngine(), *snapshots, tmp_path / "timestep", settings=WikiBigEditSettings())
    reason = "another item has the same name"
    assert [case.fact.subject for case in timestep.cases()] == ["Q1"]
    assert [row["subject"] for row in read_dropped(timestep).to_pylist()] == ["Q2"]  # type: ignore[union-attr]
    assert timestep.manifest["funnel"]["dropped"][reason] == 1
    filters = timestep.manifest["final_filters"]
    assert filters["locality"] == {"judged": 1, "passed": 0, "failed": {reason: 1}}
    assert filters["known_facts"] == {"judged": 2, "passed": 1, "failed": {reason: 1}}


@pytest.mark.slow
def test_a_known_fact_is_left_out_if_its_subjects_only_hint_contains_an_alias_of_the_old_answer(tmp_path: Path) -> None:
    hint = {"descriptions": {"en": {"language": "en", "value": "town of Ada"}}}
    still = [
        item("P6", label="head of government"),
        item("Q20", label="Ms Berg", aliases=("Ada",)),
        item("Q21", label="Bo Ek"),
        item("Q2", label="Arvika"),
    ]
    before, after = ([*still, item("Q1", about("P6", leader), label="Arvika") | hint] for leader in ("Q20", "Q21"))
    snapshots = two_snapshots(tmp_path, before, after)
    timestep = export_timestep(StoreEngine(), *snapshots, tmp_path / "timestep", settings=WikiBigEditSettings())
    assert [case.question for case in timestep.cases()] == ["Who is the head of government of Arvika (town of Ada)?"]
    assert timestep.manifest["final_filters"]["known_facts"]["failed"] == {"another item has the same name": 1}
