"""Demonstrations are known facts that no question asks for; the training format is one for all methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from world.small_models import save, small_model
from world.small_timestep import write_timestep

from kgedit.errors import TimestepError
from kgedit.llm.presets import PRESETS
from kgedit.records.cases import Fact, KnownFact
from kgedit.runs.presets import asked_contexts, choose_demonstrations, training_contexts
from kgedit.runs.run_files import read_answers, read_environment
from kgedit.runs.runner import run
from kgedit.runs.spec import resolve

KNOWN = [
    KnownFact(Fact(f"Q{n}", "", f"P{n % 3}", "", "", ""), f"Who is {n}?", "", "", f"Answer {n}") for n in range(12)
]
FEW = PRESETS["few_shot"]


def _few(shots: int, seed: int = 0) -> tuple[tuple[str, str], ...]:
    return choose_demonstrations(KNOWN, replace(FEW, shots=shots, shots_seed=seed))


def test_demonstrations_are_drawn_by_seed_from_different_relations_first() -> None:
    relation = {fact.question: fact.fact.property for fact in KNOWN}
    for seed in range(4):
        assert sorted(relation[question] for question, _ in _few(3, seed)) == ["P0", "P1", "P2"]
        assert len(set(_few(12, seed))) == 12
        assert _few(5, seed)[:3] == _few(3, seed), "more of them leave the first ones"
    assert len({_few(3, seed) for seed in range(4)}) == 4
    assert choose_demonstrations(KNOWN[::-1], replace(FEW, shots=3)) == _few(3), "the order of facts says nothing"
    assert _few(0) == ()
    with pytest.raises(TimestepError, match=r"shows 13 known facts, and there are 12(.|\n)*few_shot:N"):
        _few(13)


def test_asked_stands_for_each_context_of_the_presets_once() -> None:
    presets = [PRESETS[name] for name in ("synthetic", "wild", "wild_line", "few_shot")]
    asked = asked_contexts(presets, KNOWN)

    assert [context.name for context in training_contexts("asked", presets, asked, None)] == [
        "question_only",
        "instruction",
        "question_answer",
    ]
    assert training_contexts("asked", presets, asked, None)[2].prompt("Who?").count("\nA: ") == 3
    assert [context.prompt("Who?") for context in training_contexts("question_only", presets, asked, None)] == ["Who?"]
    assert training_contexts(None, presets, asked, None) == ()


def test_a_run_shows_facts_of_no_case_and_trains_in_the_format_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    step = write_timestep(tmp_path / "step", towns=range(3))
    save(small_model(), tmp_path / "model")
    raw = {"timesteps": [str(tmp_path / "step")], "model": str(tmp_path / "model"), "method": "ft_m", "device": "cpu"}
    raw |= {"settings": {"steps": 1}, "presets": ["few_shot:4:3", "synthetic"], "train_context": "asked"}
    folder = run(resolve(raw), tmp_path / "run")

    shown = {answer.prompt.rpartition("Q: ")[0] for answer in read_answers(folder) if answer.preset == "few_shot:4:3"}
    assert len(shown) == 1, "the same ones ahead of every question"
    lines = shown.pop().splitlines()
    answers = {fact.question: fact.answer for fact in step.known_facts()}
    pairs = [
        (question.removeprefix("Q: "), answer.removeprefix("A: "))
        for question, answer in zip(lines[::2], lines[1::2], strict=True)
    ]
    assert len(pairs) == 4
    assert all(answers[question] == answer for question, answer in pairs)
    asked = {probe.question for case in step.cases() for probe in case.probes}
    assert not asked & {question for question, _ in pairs}
    environment = read_environment(folder)
    assert environment is not None
    assert [context.name for context in environment.trained_in] == ["question_answer", "question_only"]
    assert environment.trained_in[0].sha256 == environment.contexts["few_shot:4:3"]
