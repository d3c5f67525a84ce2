"""The prompt if a model has no room for the whole prefix."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from world.small_models import small_model
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.editing.editor import Prefix
from kgedit.llm.backends.contract import TransformersBackend
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import AnswerCache, PresetQuestion, Question, longest
from kgedit.llm.presets import PRESETS
from kgedit.llm.replies import Reply
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.records.runs import UNEDITED, Answer, ModelState, Neighbour
from kgedit.runs.evaluator import AskedProbe, Evaluator, probes_under, to_answer, word
from kgedit.runs.run_folder import RunFolder

ASKED = (PRESETS["synthetic"], PRESETS["wild"])
MANY = {
    "ike": {"embedder": "character-ngrams", "k": 16},
    "rag": {"embedder": "character-ngrams", "k": 20},
    "prompt": {"most": 50},
}


def _answers(
    method: str, folder: Path, *, edits: Sequence[Case] = (), architecture: str = "gpt2"
) -> tuple[list[Answer], dict[str, Prefix]]:
    """Answers of a model of 256 positions to what two cases ask, and the whole prefix of each question."""
    timestep = write_timestep(folder / "timestep")
    cases = list(timestep.cases())
    model = small_model(architecture)
    contexts = {preset.name: read_context(preset.context) for preset in ASKED}
    editor = make_editor(method, model, MANY[method], contexts=tuple(contexts.values()), seed=0)
    editor.prepare(timestep.known_facts(), advance=ignore)
    editor.apply(edits or {"ike": cases[:2], "rag": cases, "prompt": cases * 2}[method])
    evaluator = Evaluator(
        model,
        TransformersBackend(model, batch_tokens=2000),
        ASKED,
        contexts=contexts,
        folder=RunFolder(folder),
        cache=AnswerCache(folder / "cache.jsonl"),
    )
    asked = cases[:2]
    evaluator.evaluate(asked, editor, state=ModelState(timestep.name), advance=lambda more: None)
    questions = [probe.question for case in asked for probe in case.probes]
    return RunFolder(folder).answers(), dict(zip(questions, editor.prefixes(questions), strict=True))


def _prompt(prefix: Prefix, answer: Answer) -> str:
    context = read_context(answer.context)
    return context.prompt(answer.question, facts=prefix.worded(context))


def _length(prompt: str, answer: Answer, old: Sequence[str]) -> int:
    preset = next(preset for preset in ASKED if preset.name == answer.preset)
    asks_for_it = answer.axis in ("update", "rephrase", "personas")
    return longest(small_model("gpt2"), Question(prompt, answer.answers[0], tuple(old) if asks_for_it else ()), preset)


@pytest.mark.parametrize("method", MANY)
@pytest.mark.slow
def test_the_farthest_parts_that_do_not_fit_are_left_out_whole_and_no_more(method: str, tmp_path: Path) -> None:
    answers, prefixes = _answers(method, tmp_path)
    old = {case.case_id: case.old_answers for case in write_timestep(tmp_path / "again").cases()}
    lost = []
    for answer in answers:
        whole, before = prefixes[answer.question], old[answer.case_id]
        left_out = next(n for n in range(len(whole.parts)) if _prompt(whole.without(n), answer) == answer.prompt)
        lost.append(left_out)
        assert _length(answer.prompt, answer, before) <= 256
        assert left_out == 0 or _length(_prompt(whole.without(left_out - 1), answer), answer, before) > 256
        assert answer.retrieved == whole.without(left_out).retrieved

    assert len(lost) == 2 * 2 * 5
    assert sum(n > 0 for n in lost) >= 10, "under the longer of the two presets every prompt was too long"


def test_what_is_recorded_as_retrieved_stands_in_the_prompt(tmp_path: Path) -> None:
    answers, _ = _answers("rag", tmp_path)
    bare = [answer for answer in answers if answer.context == "question_only"]
    wild = [answer for answer in answers if answer.context == "instruction"]

    assert all(answer.prompt.count("\n") == len(answer.retrieved) for answer in bare)
    assert all(answer.prompt.count("\nA: ") == len(answer.retrieved) for answer in wild)
    assert {len(answer.retrieved) for answer in wild} <= set(range(1, 10)), "ten were found"
    assert all(answer.retrieved[0] == answer.case_id for answer in answers if answer.axis == "update")


@pytest.mark.slow
def test_the_last_part_stays_even_where_it_does_not_fit(tmp_path: Path) -> None:
    cases = list(write_timestep(tmp_path / "timestep").cases())
    endless = replace(cases[1], answer="very " * 300)
    answers, prefixes = _answers("prompt", tmp_path, edits=[cases[0], endless], architecture="llama")

    for answer in answers:
        last = prefixes[answer.question].parts[-1]
        assert last.text.count("very ") == 300
        assert answer.prompt == _prompt(Prefix((last,)), answer)


def test_the_old_answers_probability_is_told_where_the_edited_fact_is_asked_for(tmp_path: Path) -> None:
    answers, _ = _answers("prompt", tmp_path)
    result = {(answer.axis, answer.preset): answer.old_probability for answer in answers}
    assert {axis for (axis, preset), value in result.items() if value is not None} == {"update", "rephrase", "personas"}
    assert {preset for (_, preset), value in result.items() if value is not None} == {"synthetic"}
    assert all((answer.probability is None) == (answer.preset == "wild") for answer in answers)


def test_a_cloze_preset_words_the_update_as_the_cases_cloze_and_nothing_else(tmp_path: Path) -> None:
    case = next(write_timestep(tmp_path).cases())
    bare = read_context("question_only")
    prompts = {
        probe.axis: word(small_model(), AskedProbe(case, probe), PRESETS["cloze"], context=bare).question.prompt
        for probe in case.probes
    }
    plain = {probe.axis: probe.question for probe in case.probes}

    assert prompts == plain | {"update": "The mayor of Arvika is"}
    unworded = replace(case, cloze="")
    update = next(probe for probe in case.probes if probe.axis == "update")
    asked = word(small_model(), AskedProbe(unworded, update), PRESETS["cloze"], context=bare)
    assert asked.question.prompt == update.question


def test_with_clozes_the_four_others_ask_for_generalization_and_neighbours_have_theirs(tmp_path: Path) -> None:
    case = next(write_timestep(tmp_path).cases())
    others = tuple(f"Arvika is led {way} by" for way in ("well", "badly", "mostly", "only"))
    near = next(probe for probe in case.probes if probe.axis == "locality")
    case = replace(
        case,
        clozes=(case.cloze, *others),
        probes=(*case.probes, replace(near, axis="random_locality", cloze="Mora lies at", similarity=0.5)),
    )
    asked = probes_under(case, PRESETS["cloze"])
    assert [probe.question for probe in asked if probe.axis == "rephrase"] == list(others)
    assert [probe.axis for probe in asked if probe.axis != "rephrase"] == [
        probe.axis for probe in case.probes if probe.axis != "rephrase"
    ]
    assert probes_under(case, PRESETS["synthetic"]) == case.probes
    texts = probes_under(case, PRESETS["cloze_text"])
    assert [probe.question for probe in texts] == list(others), "WikiFactDiff's fluency is that after these"
    bare = read_context("question_only")
    worded = word(small_model(), AskedProbe(case, asked[-1]), PRESETS["cloze"], context=bare)
    assert worded.question.prompt == "Mora lies at"
    reply = Reply(text="", token_match=None, prompt_tokens=1, new_tokens=1, seconds=0.0)
    answer = to_answer(worded, reply, UNEDITED)
    assert answer.neighbour == Neighbour(
        subject=near.facts[0].subject, label=near.facts[0].subject_label, similarity=0.5, popularity=None, basis="graph"
    )
    update = word(small_model(), AskedProbe(case, asked[0]), PRESETS["cloze"], context=bare)
    assert to_answer(update, reply, UNEDITED).neighbour is None
    generalized = word(small_model(), AskedProbe(case, asked[1]), PRESETS["cloze"], context=bare)
    assert generalized.question.old == case.old_answers, "its difference and success are WikiFactDiff's"


@pytest.mark.parametrize(("method", "asks"), [("none", 0), ("rag", 2), ("ft_m", 2)])
def test_only_what_edits_changed_is_asked_again(
    method: str, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = list(write_timestep(tmp_path / "timestep").cases())[:2]
    model = small_model("gpt2")
    settings = {"rag": {"embedder": "character-ngrams"}, "ft_m": {"steps": 1}}.get(method, {})
    contexts = {preset.name: read_context(preset.context) for preset in ASKED}
    editor = make_editor(method, model, settings, contexts=tuple(contexts.values()), seed=0)
    evaluator = Evaluator(
        model,
        TransformersBackend(model),
        ASKED,
        contexts=contexts,
        folder=RunFolder(tmp_path),
        cache=AnswerCache(tmp_path / "cache.jsonl"),
    )
    evaluator.evaluate(cases, None, state=UNEDITED, advance=lambda more: None)
    editor.apply(cases)
    asked: list[PresetQuestion] = []
    real = TransformersBackend.ask

    def count(backend: TransformersBackend, some: Sequence[PresetQuestion]) -> list[Reply]:
        asked.extend(some)
        return real(backend, some)

    monkeypatch.setattr(TransformersBackend, "ask", count)
    evaluator.evaluate(cases, editor, state=ModelState("timestep"), advance=lambda more: None)
    questions = len(ASKED) * 2 * 5
    assert len(asked) == (questions if asks else 0)
    assert len(RunFolder(tmp_path).answers()) == 2 * questions


def test_what_is_asked_in_parts_is_asked_once_each_and_not_again_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases, model = list(write_timestep(tmp_path / "timestep").cases())[:4], small_model("gpt2")
    contexts = {preset.name: read_context(preset.context) for preset in ASKED}
    asked: list[int] = []

    def evaluator(name: str, *, at_once: int) -> Evaluator:
        monkeypatch.setattr("kgedit.runs.evaluator._AT_ONCE", at_once)
        backend = TransformersBackend(model)
        plan = backend.plan
        monkeypatch.setattr(backend, "plan", lambda items: asked.append(len(items)) or plan(items))
        folder, cache = RunFolder(tmp_path / name), AnswerCache(tmp_path / name / "cache.jsonl")
        return Evaluator(model, backend, ASKED, contexts=contexts, folder=folder, cache=cache)

    evaluator("whole", at_once=1000).evaluate(cases, None, state=UNEDITED, advance=lambda more: None)
    most = max(asked)
    asked.clear()
    parts = evaluator("parts", at_once=5)
    parts.evaluate(cases[:3], None, state=UNEDITED, advance=lambda more: None)
    assert max(asked) < most
    before = RunFolder(tmp_path / "parts").answers()
    again = evaluator("parts", at_once=5)
    assert again.has(cases[0], UNEDITED)
    assert not again.has(cases[3], UNEDITED)
    again.evaluate(cases, None, state=UNEDITED, advance=lambda more: None)

    answers = RunFolder(tmp_path / "parts").answers()
    assert answers[: len(before)] == before
    key = operator.attrgetter("case_id", "axis", "question", "preset", "text")
    assert sorted(map(key, answers)) == sorted(map(key, RunFolder(tmp_path / "whole").answers()))
