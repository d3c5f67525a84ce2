"""Answers shown by `kgedit up`: old answers that were known, and examples drawn without regard to success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from world.page_runs import NAMES, case_of, write_page_run
from world.small_runs import T1, answer, cost, write_run

from kgedit.llm.presets import PRESETS
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_runs, write_edited_cases
from kgedit.runs.scoring import write_scores
from kgedit.verbs.up_summary import (
    MethodEffect,
    _measure,
    _what_was_known,
    choose_examples,
    old_answers_known,
    read_update_answers,
)


def _write_selection(folder: Path, *, answered: int = 0) -> Path:
    counts = {"timestep": T1, "cases": 20, "named": 20, "drawn": 12, "answered": answered, "edited": 12 - answered}
    (folder / "selection.json").write_text(json.dumps([counts]), encoding="utf-8")
    return folder


def _run_that_knows(folder: Path, known: int) -> Path:
    """A run whose unedited model gives the old answer to this many of the cases, and some other answer to the rest."""
    cases = [case_of(number, name) for number, name in enumerate(NAMES)]
    found: list[Answer] = []
    for number, case in enumerate(cases):
        text = case.old_answers[0] if number < known else "Somebody"
        shared = {"question": case.question, "answers": (case.answer,)}
        found += [
            answer(case.case_id, after=None, text=text, **shared),
            answer(case.case_id, text=case.answer, **shared),
        ]
    write_run(folder, found, [cost([case.case_id for case in cases])], only_failed=True)
    write_edited_cases(folder, cases)
    write_scores(folder)
    return _write_selection(folder, answered=2)


@pytest.mark.parametrize("known", [0, 5, 12])
def test_the_share_of_known_old_answers_is_that_of_the_answers_before_the_edits(tmp_path: Path, known: int) -> None:
    (run,) = read_runs([_run_that_knows(tmp_path / "run", known)])
    share = old_answers_known(read_update_answers(run, PRESETS["wild"]))
    assert share is not None
    assert (round(share.mean * 12), share.n) == (known, 12)
    assert share.low is not None
    assert share.high is not None
    assert share.low <= share.mean <= share.high
    assert share.low < share.high, "0 and 100 % have an interval too"


def test_the_sentence_separates_old_answers_from_new_ones_and_names_what_was_left_out(tmp_path: Path) -> None:
    ((effect, _),) = _measure(read_runs([_run_that_knows(tmp_path / "run", 6)]))
    assert _what_was_known([effect]) == (
        f"Before the edits, {effect.model} knew 50 % of the old answers (n = 12) and 0 % of the new ones (n = 12). "
        f"{effect.model} already answered 2 of the 12 questions with the new value, so these were left out."
    )


def test_examples_are_the_same_whether_the_answers_are_right_or_wrong(tmp_path: Path) -> None:
    shown = []
    for right in (1, 5):
        folder = _write_selection(write_page_run(tmp_path / str(right), NAMES, right=right))
        (run,) = read_runs([folder])
        shown.append(choose_examples([read_update_answers(run, PRESETS["wild"])], seed=3))
    assert [one.question for one in shown[0]] == [one.question for one in shown[1]]
    assert len(shown[0]) == 3
    assert all(pair.right and pair.after == one.target for one in shown[0] for pair in one.answers)
    assert not all(pair.right for one in shown[1] for pair in one.answers)
    assert all(pair.before == "No idea" for one in shown[0] for pair in one.answers)


def test_another_seed_shows_other_examples(tmp_path: Path) -> None:
    (run,) = read_runs([_write_selection(write_page_run(tmp_path / "run", NAMES))])
    answers = read_update_answers(run, PRESETS["wild"])
    drawn = {tuple(one.question for one in choose_examples([answers], seed=seed)) for seed in range(5)}
    assert len(drawn) > 1


def test_the_method_with_most_right_answers_comes_first_with_damage_and_cost(tmp_path: Path) -> None:
    folders = [
        write_page_run(tmp_path / "rag", NAMES, right=2, train_context=None),
        write_page_run(tmp_path / "ft_m", NAMES, method="ft_m", right=5),
    ]
    effects = [effect for effect, _ in _measure(read_runs([_write_selection(folder) for folder in folders]))]
    assert [(one.method, _count(one)) for one in effects] == [("rag", 6), ("ft_m", 3)]
    assert all(one.kept and one.kept.n == 12 and one.seconds_per_edit for one in effects)


def _count(effect: MethodEffect) -> int:
    return round(12 * effect.free.mean) if effect.free else -1
