"""EasyEdit's results files: written from a run, and read as stated scores beside runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from world.small_runs import SYNTHETIC, WILD, answer, cost, write_run
from world.small_timestep import a_case

import kgedit
from kgedit.cli import main
from kgedit.errors import TimestepError
from kgedit.records.runs import Answer
from kgedit.runs.easyedit_results import easyedit_results, read_easyedit_results
from kgedit.runs.run_files import read_spec, write_edited_cases
from kgedit.runs.scoring import write_scores
from kgedit.runs.spec import write_spec

CASE = a_case()
THEIRS: list[dict[str, Any]] = [
    {
        "pre": {"rewrite_acc": [0.25], "rephrase_acc": [0.0], "locality": {"NQ_output": [[1, 2]]}, "portability": {}},
        "case_id": 0,
        "requested_rewrite": {
            "prompt": CASE.question,
            "target_new": CASE.fact.object_label,
            "subject": CASE.fact.subject_label,
        },
        "time": 1.5,
        "post": {
            "rewrite_acc": [1.0],
            "rephrase_acc": [0.5, 1.0],
            "locality": {"NQ_output": [[1, 2]], "NQ_acc": [0.5]},
            "portability": {"mhop_acc": [0.25], "Humming_acc": [0.0]},
            "fluency": {"ngram_entropy": 6.1},
        },
    },
    {
        "pre": {"rewrite_acc": [0.75], "locality": {}, "portability": {}},
        "case_id": 1,
        "requested_rewrite": {"prompt": "Who leads Kalix?", "target_new": "Siv Nyman", "subject": "Kalix"},
        "post": {"rewrite_acc": 0.5, "rephrase_acc": [math.nan], "locality": {"NQ_acc": [1.0]}, "portability": {}},
    },
]


def _asked(axis: str, question: str, before: float, after: float, *, text: str = "same") -> list[Answer]:
    result: dict[str, Any] = {"of": SYNTHETIC, "axis": axis, "question": question, "timestep": CASE.timestep}
    result |= {"relation": CASE.fact.property, "answers": (CASE.answer,)}
    return [
        answer(CASE.case_id, **result, after=None, token_match=before, text="same"),
        answer(CASE.case_id, **result, after=CASE.timestep, token_match=after, text=text),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    answers = [
        *_asked("update", CASE.question, 0.25, 1.0),
        *_asked("rephrase", "Who leads it?", 0.0, 0.5),
        *_asked("rephrase", "Who heads it?", 0.0, 1.0),
        *_asked("mhop", "Where was its mayor born?", 0.5, 0.25),
        *_asked("locality", "Who is the mayor of Mora?", 1.0, 0.5, text="other"),
        *_asked("locality", "Who is the mayor of Hjo?", 0.0, 0.0),
    ]
    run = write_run(tmp_path / "run", answers, [cost([CASE.case_id], timestep=CASE.timestep)], presets=(SYNTHETIC,))
    write_edited_cases(run, [CASE])
    write_scores(run)
    return run


def test_a_run_is_written_with_the_token_match_of_its_teacher_forced_preset(folder: Path) -> None:
    (row,) = json.loads(easyedit_results(folder).text)
    assert list(row)[:5] == ["pre", "case_id", "requested_rewrite", "time", "post"]
    assert (row["case_id"], row["time"]) == (0, 2.0)
    asked = row["requested_rewrite"]
    assert (asked["prompt"], asked["target_new"], asked["subject"]) == (
        CASE.question,
        CASE.answer,
        CASE.fact.subject_label,
    )
    assert asked["ground_truth"] == CASE.old_answers[0]
    assert asked["rephrase_prompt"] == ["Who leads it?", "Who heads it?"]
    assert (row["pre"]["rewrite_acc"], row["post"]["rewrite_acc"]) == ([0.25], [1.0])
    assert (row["pre"]["rephrase_acc"], row["post"]["rephrase_acc"]) == ([0.0], [0.75])
    assert row["post"]["portability"] == {"Reasoning_acc": [0.25]}
    assert (row["pre"]["locality"], row["post"]["locality"]) == ({}, {"Relation_Specificity_acc": [0.0, 1.0]})
    meta = row["post"]["metric_meta"]
    assert meta["rewrite"]["comparable_group"] == "lm.decoder_only_teacher_forcing.token_accuracy"
    assert meta["locality.Relation_Specificity"]["protocol"] == "pre_post_argmax_text_match"
    assert easyedit_results(folder) == easyedit_results(folder)


def test_what_is_written_has_what_easyedits_summary_reads(folder: Path) -> None:
    for row in json.loads(easyedit_results(folder).text):
        for state in ("pre", "post"):
            scores = row[state]
            assert [len(scores[name]) for name in ("rewrite_acc", "rephrase_acc")] == [1, 1]
            for section in ("locality", "portability"):
                lists = [value for name, value in scores[section].items() if name.endswith("acc")]
                assert all(value and all(isinstance(one, float) for one in value) for value in lists)
            assert all(one["comparable_group"] for one in scores["metric_meta"].values())


def test_what_was_written_is_read_with_the_scores_of_the_run(folder: Path, tmp_path: Path) -> None:
    made = kgedit.report(folder, easyedit=tmp_path / "easyedit")
    (path,) = made.files
    found = read_easyedit_results(path)
    (run,) = made.runs
    for axis in ("update", "rephrase", "mhop"):
        before, after = (run.pooled(stage, axis, "synthetic")["token_match"].mean for stage in ("before", "own"))
        assert (found.scores[axis].before, found.scores[axis].after) == (before, after)
    assert found.scores["locality"].after == run.pooled("own", "locality", "synthetic")["unchanged"].mean == 0.5
    assert found.whole_answers
    assert found.edits == ((CASE.fact.subject_label, CASE.answer),)


def test_theirs_are_means_over_edits_and_what_no_axis_asks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "FT_results.json"
    path.write_text(json.dumps(THEIRS), encoding="utf-8")
    found = read_easyedit_results(path)
    update, rephrase = found.scores["update"], found.scores["rephrase"]
    assert (update.before, update.after, update.n) == (0.5, 0.75, 2)
    assert (rephrase.before, rephrase.after, rephrase.n) == (0.0, 0.75, 1)
    assert (found.scores["locality"].after, found.whole_answers) == (0.75, False)
    assert found.scores["mhop"].after == 0.25
    assert found.unread == ("fluency", "portability.Humming_acc")


def test_a_results_file_stands_beside_runs_without_intervals_or_tests(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "FT_results.json"
    path.write_text(json.dumps(THEIRS), encoding="utf-8")
    made = kgedit.report([path, folder])
    table = made.tables[-1]
    assert table.title == "EasyEdit results files"
    theirs, ours = ({column.name: cell for column, cell in zip(table.columns, row, strict=True)} for row in table.rows)
    assert theirs["provenance"].startswith("EasyEdit results file ")  # type: ignore[union-attr]
    assert (theirs["edits"], theirs["in common"], ours["in common"]) == (2, 1, 1)
    assert theirs["update"].after.low is None  # type: ignore[union-attr]
    assert (theirs["same tokens"], theirs["same answers"]) == (0.75, None)
    assert (ours["same tokens"], ours["same answers"]) == (None, 0.5)
    assert ours["update"].after.mean == 1.0  # type: ignore[union-attr]
    assert [table.title for table in kgedit.report(path).tables] == ["EasyEdit results files"]
    shown = CliRunner().invoke(main, ["report", str(path), str(folder), "--brief"])
    assert shown.exit_code == 0, shown.output
    assert "EasyEdit results files" in shown.output


def test_what_has_no_answers_is_not_scored_again_and_makes_no_page(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "FT_results.json"
    path.write_text(json.dumps(THEIRS), encoding="utf-8")
    with pytest.raises(TimestepError, match="nothing in it can be scored again"):
        kgedit.report([path, folder], rescore=True)
    with pytest.raises(TimestepError, match="name a run as well"):
        kgedit.report(path, html=tmp_path / "page.html")


@pytest.mark.parametrize("content", ["{}", "[]", "[1]", '[{"pre": {}}]', "<html>"])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TimestepError, match="results of EasyEdit"):
        kgedit.report(path)


def test_edits_whose_question_was_not_asked_are_left_out_and_counted(folder: Path, tmp_path: Path) -> None:
    write_edited_cases(folder, [replace(CASE, case_id="Q9:P6:Q8"), CASE])
    write_scores(folder)
    made = kgedit.report(folder, easyedit=tmp_path / "easyedit")
    (row,) = json.loads(made.files[0].read_text(encoding="utf-8"))
    assert (row["case_id"], row["kgedit"]["case_id"]) == (1, CASE.case_id)
    assert made.notes == (f"{made.files[0]}: 1 of 2 edits left out, because their own question was not asked",)
    write_edited_cases(folder, [replace(CASE, case_id="Q9:P6:Q8")])
    with pytest.raises(TimestepError, match="has no answer to the question of an edit"):
        easyedit_results(folder)


def test_only_a_preset_that_asks_for_updates_gives_such_results(folder: Path) -> None:
    near = replace(SYNTHETIC, name="near", axes=("locality",))
    spec = replace(read_spec(folder), presets=(near, SYNTHETIC))
    (folder / "spec.yaml").write_text(write_spec(spec), encoding="utf-8")
    assert easyedit_results(folder).left_out == 0
    (folder / "spec.yaml").write_text(write_spec(replace(spec, presets=(near,))), encoding="utf-8")
    with pytest.raises(TimestepError, match="no teacher-forced preset on the axis update"):
        easyedit_results(folder)


def test_a_run_without_a_teacher_forced_preset_has_no_such_results(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [answer()], presets=(WILD,))
    write_scores(run)
    with pytest.raises(TimestepError, match="preset synthetic"):
        easyedit_results(run)
