"""The screen that `make demo` ends with is computed from run folders."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from world.small_runs import SYNTHETIC, T1, WILD, answer, write_run
from world.small_timestep import write_timestep

from kgedit.records.runs import Preset
from kgedit.runs.scoring import write_scores

SCRIPT = Path(__file__).resolve().parents[3] / "docs" / "demo_results.py"


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        (WILD, "asked to write it, it writes it exactly in"),
        (replace(WILD, name="wild_chat", metric="contains"), "asked for it in a chat, its answer holds it in"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_each_run_has_its_scores_in_a_sentence_and_an_answer_that_changed(
    tmp_path: Path, preset: Preset, said: str
) -> None:
    timestep = write_timestep(tmp_path / "benchmark" / T1, towns=range(2))
    cases = list(timestep.cases())
    answers = [
        answer(case.case_id, of=preset, question=case.question, answers=(case.answer,), text=text, after=after)
        for after, texts in ((None, ("Nils Ek", "Ada Holm")), (T1, (cases[0].answer, "Ada Holm")))
        for case, text in zip(cases, texts, strict=True)
    ]
    answers += [answer(case.case_id, of=SYNTHETIC, question=case.question, after=T1) for case in cases]
    answers += [
        answer(case.case_id, of=SYNTHETIC, axis="locality", question=f"About {case.case_id}?", text="same", after=after)
        for after in (None, T1)
        for case in cases
    ]
    run = write_run(tmp_path / "runs" / "one", answers, timesteps=(str(timestep.folder),), presets=(SYNTHETIC, preset))
    write_scores(run)
    screen = " ".join(runpy.run_path(str(SCRIPT))["results"](tmp_path).split())
    assert "2 facts that can be asked for" in screen
    assert f"{said} 50.0 % (0.0 % before); 100.0 % of answers about other subjects are unchanged." in screen
    assert f"{cases[0].question} “Nils Ek” → “{cases[0].answer}”" in screen
