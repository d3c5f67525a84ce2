"""EasyEdit's and KnowEdit's edit files become cases."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from world.edit_files import EASYEDIT, write_json
from world.shared_data import SHARED

from kgedit.errors import TimestepError
from kgedit.timesteps.edit_files import EditFile, open_edits
from kgedit.timesteps.timestep import Timestep

SETS = SHARED / "editing_sets"


@pytest.mark.shared
def test_counterfact_gives_update_rephrase_and_locality_of_every_edit() -> None:
    edits = EditFile.open(SETS / "counterfact-edit.json")
    cases = list(edits.cases())
    first = cases[0]

    assert (edits.name, len(cases)) == ("counterfact-edit", 5000)
    assert (edits.edit_format.name, edits.unused, edits.left_out) == ("easyedit", (), {})
    assert len({case.case_id for case in cases}) == len(cases)
    assert (first.question, first.answer) == ("The mother tongue of Danielle Darrieux is", "English")
    assert (first.old_answers, first.fact.subject_label, first.tag) == (("French",), "Danielle Darrieux", "update")
    assert [(probe.axis, probe.answers[0]) for probe in first.probes] == [
        ("update", "English"),
        ("rephrase", "English"),
        ("locality", "French"),
    ]
    known = edits.known_facts()
    assert [fact.answer for fact in known[:2]] == ["French", "French"]
    assert known[1].fact == first.probes[2].facts[0]


@pytest.mark.shared
def test_qaedit_gives_every_locality_question() -> None:
    edits = EditFile.open(SETS / "QAEdit_inter_1k.json")
    cases = list(edits.cases())

    assert (edits.unused, edits.left_out) == ((), {})
    assert len(cases) == len({case.case_id for case in cases}) > 100
    assert cases[0].case_id == "NQ:0:1104"
    assert cases[0].old_answers == ()
    assert [probe.axis for probe in cases[0].probes] == ["update", "rephrase"] + ["locality"] * 5
    assert all(len(case.case_id.split(":")) == 3 for case in cases)


def test_every_ground_truth_is_an_old_answer_and_empty_ones_are_none(tmp_path: Path) -> None:
    rows = [
        {"prompt": "A is ", "target_new": ["B", "the B"], "ground_truth": ["C", ["D", "C"]]},
        {"prompt": "E", "target_new": "F", "ground_truth": []},
    ]
    first, second = EditFile.open(write_json(tmp_path / "edits.json", *rows)).cases()

    assert (first.old_answers, second.old_answers) == (("C", "D"), ())
    assert len(set(first.old_objects)) == 2
    assert (first.question, first.answer, first.probes[0].answers) == ("A is", "B", ("B", "the B"))


def test_knowedits_groups_go_to_the_axes_that_ask_the_same(tmp_path: Path) -> None:
    edits = EditFile.open(write_json(tmp_path / "edits.json", EASYEDIT))
    (case,) = edits.cases()
    asked = {probe.axis: probe for probe in case.probes}

    assert case.case_id == "towns:0:7"
    assert {axis: probe.answers for axis, probe in asked.items() if axis != "locality"} == {
        "update": ("Olof Gren",),
        "rephrase": ("Olof Gren",),
        "mhop": ("Falun",),
        "alias": ("Olof Gren",),
        "consequence": ("Arvika",),
        "personas": ("Olof Gren",),
    }
    assert [len(asked[axis].facts) for axis in ("alias", "mhop", "consequence")] == [1, 2, 2]
    near = [probe for probe in case.probes if probe.axis == "locality"]
    assert [probe.answers for probe in near] == [("Byälven", "the Byälven"), ("Nils Ek",)]
    assert [(probe.facts[0].property, probe.facts[0].property_label) for probe in near] == [
        ("P206", ""),
        ("near-relation-0-1", "Forgetfulness"),
    ]
    assert {field.path for field in edits.unused} == {
        "cond",
        "portability.Humming.prompt",
        "portability.Humming.ground_truth",
    }


@pytest.mark.parametrize(("further", "second_case"), [([], "Q5:P26:Q6"), ([["Q6", "P27", "Q7"]], None)])
def test_only_the_last_of_two_facts_is_that_of_another_case(
    further: list[list[str]], second_case: str | None, tmp_path: Path
) -> None:
    asked = {"prompt": "Who?", "ground_truth": [["Ada"]], "ids": [["Q1", "P6", "Q5"], ["Q5", "P26", "Q6"], *further]}
    other = {"prompt": "Whom?", "target_new": "Ada", "case_id": "Q5:P26:Q6"}
    path = write_json(tmp_path / "edits.json", EASYEDIT | {"portability": {"Reasoning": [asked]}}, other)
    case = next(EditFile.open(path).cases())
    assert [probe.second_case_id for probe in case.probes if probe.axis == "mhop"] == [second_case]


def test_the_subject_is_put_into_a_prompt_with_braces(tmp_path: Path) -> None:
    with_braces = {"prompt": "The mayor of {} is", "target_new": "Ada", "rephrase_prompt": "{} is led by"}
    edits = EditFile.open(write_json(tmp_path / "edits.json", with_braces | {"subject": "Arvika"}, with_braces))
    (case,) = edits.cases()
    assert [probe.question for probe in case.probes] == ["The mayor of Arvika is", "Arvika is led by"]
    assert case.question == case.probes[0].question
    assert edits.left_out == {"edits with {} in a prompt, without a subject to put there": 1}


def test_the_subject_is_put_into_portability_prompts_and_locality_prompts_with_braces_are_left_out(
    tmp_path: Path,
) -> None:
    row = {"prompt": "Who leads Arvika?", "target_new": "Ada"}
    row |= {"locality_prompt": "The mayor of {} is", "locality_ground_truth": "Bea"}
    row["portability"] = {"Reasoning": {"prompt": "The spouse of the mayor of {} is", "ground_truth": "Cy"}}
    edits = EditFile.open(write_json(tmp_path / "edits.json", row | {"subject": "Arvika"}, row))
    asked = [[probe.question for probe in case.probes] for case in edits.cases()]
    assert asked == [["Who leads Arvika?", "The spouse of the mayor of Arvika is"], ["Who leads Arvika?"]]
    reason = "questions with {} and no subject to replace it"
    assert edits.left_out == {f"locality {reason}": 2, f"portability {reason}": 1}


def test_wikibios_text_and_labels_are_prompt_and_target(tmp_path: Path) -> None:
    row = {"text": "A passage about Ada.", "labels": "She was a clerk.", "concept": "Ada", "locality": {}}
    (case,) = EditFile.open(write_json(tmp_path / "edits.json", row)).cases()
    assert (case.question, case.answer, case.fact.subject_label) == ("A passage about Ada.", "She was a clerk.", "Ada")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([{"prompt": "x", "target_new": "y"}, "z"], "Edit 1 of .* is not a JSON object"),
        ([{"prompt": "x", "target_new": "y", "subject": 3}], "subject = 3, which must be a text"),
        (
            [
                {"prompt": "x", "target_new": "y"},
                {"prompt": "x", "target_new": "y", "locality": [{"loc": "a \ud800?"}]},
            ],
            r"Edit 1 of .* has a text with '.ud800', half of a character",
        ),
    ],
)
def test_a_malformed_object_is_refused_with_the_place(content: object, reason: str, tmp_path: Path) -> None:
    (tmp_path / "edits.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(TimestepError, match=reason):
        EditFile.open(tmp_path / "edits.json")


def test_a_folder_is_a_timestep_and_a_file_is_edits(tmp_path: Path) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "timestep.json").write_text('{"timestep": "a_b"}', encoding="utf-8")

    assert isinstance(open_edits(tmp_path / "step"), Timestep)
    assert open_edits(tmp_path / "step").unused_fields == ()
    assert isinstance(open_edits(write_json(tmp_path / "edits.json", EASYEDIT)), EditFile)


def test_a_file_of_easyedits_results_is_refused_with_the_command_that_reads_it(tmp_path: Path) -> None:
    row = {"pre": {}, "case_id": 0, "requested_rewrite": {"prompt": "Who?", "target_new": "Ada"}, "post": {}}
    file = write_json(tmp_path / "FT_results.json", row)
    with pytest.raises(TimestepError, match=rf"holds results of EasyEdit, .*: kgedit report {re.escape(str(file))}"):
        EditFile.open(file)


def test_an_edit_without_an_old_answer_is_new(tmp_path: Path) -> None:
    edits = [{"prompt": "Who leads Arvika?", "target_new": "Leo"}]
    edits.append(edits[0] | {"ground_truth": "Nils"})
    file = write_json(tmp_path / "edits.json", *edits)
    assert [case.tag for case in EditFile.open(file).cases()] == ["new", "update"]
