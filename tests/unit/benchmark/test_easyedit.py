"""EasyEdit's edit files become cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from world.shared_data import SHARED

from kgedit.benchmark.easyedit import EditFile, open_edits
from kgedit.benchmark.timestep import Timestep
from kgedit.errors import BenchmarkError

SETS = SHARED / "editing_sets"


def _write(folder: Path, content: object) -> Path:
    path = folder / "edits.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.shared
def test_counterfact_gives_update_rephrase_and_locality_of_every_edit() -> None:
    edits = EditFile.open(SETS / "counterfact-edit.json")
    cases = list(edits.cases())
    first = cases[0]

    assert (edits.name, len(cases)) == ("counterfact-edit", len(edits.rows))
    assert len({case.case_id for case in cases}) == len(cases) > 1000
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
    cases = list(EditFile.open(SETS / "QAEdit_inter_1k.json").cases())

    assert len(cases) == len({case.case_id for case in cases}) > 100
    assert cases[0].case_id == "NQ:0:1104"
    assert cases[0].old_answers == ()
    assert [probe.axis for probe in cases[0].probes] == ["update", "rephrase"] + ["locality"] * 5
    assert all(len(case.case_id.split(":")) == 3 for case in cases)


def test_the_first_of_several_ground_truths_is_taken_and_empty_ones_are_none(tmp_path: Path) -> None:
    rows = [
        {"prompt": "A is ", "target_new": "B", "ground_truth": ["C", "D"]},
        {"prompt": "E", "target_new": "F", "ground_truth": []},
    ]
    cases = list(EditFile.open(_write(tmp_path, rows)).cases())

    assert [case.old_answers for case in cases] == [("C",), ()]
    assert [case.question for case in cases] == ["A is", "E"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"prompt": "x"}, "must be a JSON list"),
        ([], "must be a JSON list"),
        ([{"prompt": "x", "target_new": "y"}, "z"], "Edit 1 of .* is no JSON object"),
        ([{"prompt": "x"}], "Edit 0 of .* lacks target_new or target"),
        ([{"prompt": "x", "target_new": "y", "subject": 3}], "subject = 3, which must be a text"),
    ],
)
def test_what_is_no_file_of_edits_is_refused_with_the_place(content: object, reason: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=reason):
        EditFile.open(_write(tmp_path, content))


def test_a_folder_is_a_timestep_and_a_file_is_edits(tmp_path: Path) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "timestep.json").write_text('{"timestep": "a_b"}', encoding="utf-8")

    assert isinstance(open_edits(tmp_path / "step"), Timestep)
    assert isinstance(open_edits(_write(tmp_path, [{"prompt": "x", "target_new": "y"}])), EditFile)
    (tmp_path / "edits.json").write_text("{", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="cannot be read"):
        open_edits(tmp_path / "edits.json")


def test_an_edit_without_an_old_answer_is_new(tmp_path: Path) -> None:
    edits = [{"prompt": "Who leads Arvika?", "target_new": "Leo"}]
    edits.append(edits[0] | {"ground_truth": "Nils"})
    assert [case.tag for case in EditFile.open(_write(tmp_path, edits)).cases()] == ["new", "update"]
