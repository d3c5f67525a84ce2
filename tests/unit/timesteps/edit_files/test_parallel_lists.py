"""Questions in one list and answers in another are paired by position, in every form that has such fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from world.edit_files import AKEW, EASYEDIT, WIKIBIGEDIT, ZSRE, Json, write_json

from kgedit.timesteps.edit_files import EditFile

EASY = {name: value for name, value in EASYEDIT.items() if name not in ("locality", "portability")}
WIKIBIG = {name: value for name, value in WIKIBIGEDIT.items() if not name.startswith(("loc", "mhop"))}


def _easyedit(questions: Any, answers: Any) -> Json:
    return EASY | {"locality": {"neighborhood": {"prompt": questions, "ground_truth": answers}}}


def _portability(questions: Any, answers: Any) -> Json:
    return EASY | {"portability": {"Reasoning": [{"prompt": questions, "ground_truth": answers}]}}


def _flat(questions: Any, answers: Any) -> Json:
    return EASY | {"locality_prompt": questions, "locality_ground_truth": answers}


def _zsre(questions: Any, answers: Any) -> Json:
    return ZSRE | {"loc": questions, "loc_ans": answers}


def _akew(questions: Any, answers: Any) -> Json:
    return AKEW | {"neighborhood_prompts": [], "loc": questions, "loc_ans": answers}


def _wikibigedit(questions: Any, answers: Any) -> Json:
    return WIKIBIG | {"loc": questions, "loc_ans": answers}


def _two_hops(questions: Any, answers: Any) -> Json:
    return WIKIBIG | {"mhop": questions, "mhop_ans": answers}


FORMS = {
    _easyedit: ("locality", "locality"),
    _portability: ("mhop", "portability"),
    _flat: ("locality", "locality"),
    _zsre: ("locality", "locality"),
    _akew: ("locality", "locality"),
    _wikibigedit: ("locality", "locality"),
    _two_hops: ("mhop", "two-hop"),
}
"""Function that makes an edit -> axis and kind of its questions."""


def _read(row: Json, axis: str, folder: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, int], int]:
    """Questions on an axis with their answers, what is left out, and the number of different facts asked for."""
    edits = EditFile.open(write_json(folder / "edits.json", row))
    (case,) = edits.cases()
    probes = [probe for probe in case.probes if probe.axis == axis]
    return {probe.question: probe.answers for probe in probes}, dict(edits.left_out), len({p.facts for p in probes})


@pytest.mark.parametrize("edit", FORMS)
def test_each_question_accepts_the_answers_at_its_position(edit: Any, tmp_path: Path) -> None:
    axis, _ = FORMS[edit]
    paired = edit(["Who wrote Emma?", "Who wrote Ulysses?"], ["Jane Austen", ["James Joyce", "Joyce"]])
    expected = {"Who wrote Emma?": ("Jane Austen",), "Who wrote Ulysses?": ("James Joyce", "Joyce")}
    assert _read(paired, axis, tmp_path) == (expected, {}, 2)


@pytest.mark.parametrize("edit", FORMS)
def test_a_single_question_accepts_every_answer_and_a_single_text_answers_all(edit: Any, tmp_path: Path) -> None:
    axis, _ = FORMS[edit]
    for question in ("Who wrote Emma?", ["Who wrote Emma?"]):
        asked, left_out, _ = _read(edit(question, ["Jane Austen", "Austen"]), axis, tmp_path)
        assert (asked, left_out) == ({"Who wrote Emma?": ("Jane Austen", "Austen")}, {})
    asked, left_out, _ = _read(edit(["Who wrote Emma?", "Who wrote Persuasion?"], "Jane Austen"), axis, tmp_path)
    assert (asked, left_out) == (dict.fromkeys(("Who wrote Emma?", "Who wrote Persuasion?"), ("Jane Austen",)), {})


@pytest.mark.parametrize("edit", FORMS)
def test_questions_that_cannot_be_paired_are_left_out_with_the_reason(edit: Any, tmp_path: Path) -> None:
    axis, kind = FORMS[edit]
    asked, left_out, _ = _read(edit(["Who?", "Which?"], ["Ada", "Bea", "Cid"]), axis, tmp_path)
    assert (asked, left_out) == ({}, {f"{kind} questions whose list has another length than that of the answers": 2})
    asked, left_out, _ = _read(edit(["Who?", "Which?"], [["Ada", "Bea"]]), axis, tmp_path)
    assert (asked, left_out) == ({}, {f"{kind} questions whose list has another length than that of the answers": 2})
    asked, left_out, _ = _read(edit(["Who?", ""], ["Ada", "Bea"]), axis, tmp_path)
    assert (asked, left_out) == ({"Who?": ("Ada",)}, {})
    asked, left_out, _ = _read(edit(["Who?", "Which?"], ["Ada", None]), axis, tmp_path)
    assert (asked, left_out) == ({"Who?": ("Ada",)}, {f"{kind} questions without an answer": 1})
