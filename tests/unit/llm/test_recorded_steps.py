"""Replayed steps of decoding give the answers of computed ones. Instead of a recording, a CPU repeats the function."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from world.small_models import ARCHITECTURES, TEXTS, small_model

from kgedit.llm import roomy_cache
from kgedit.llm.decoding import Decoding, decode
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.roomy_cache import RoomyCache, is_recordable
from kgedit.llm.shared_reading import reads_trees

PROMPTS = [
    f"{text}{number * '.'}"
    for text in (*TEXTS, "Who?", "The mayor of Hjo is", "Q: Which water does Mora lie at?\nA:")
    for number in range(3)
]
LIMITS = [limit for limit in (14, 13, 1, 16, 100, 60, 40) for _ in range(3)]
RECORDABLE = [name for name in ARCHITECTURES if reads_trees(small_model(name))]

STOPS = ("a",)
Step = Callable[[], None]


def _answers(model: LanguageModel, *, most_tokens: int = 10_000) -> list[list[int]]:
    stop_ids = model.ids_containing(STOPS) | model.end_ids
    rows = [Decoding(model.encode(prompt), stop_ids, limit) for prompt, limit in zip(PROMPTS, LIMITS, strict=True)]
    return decode(model, rows, most_tokens=most_tokens)


def _repeated(step: Step) -> Step:
    step()
    return step


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The recorded steps."""
    found: list[Step] = []

    def record(step: Step) -> Step:
        found.append(step)
        return _repeated(step)

    monkeypatch.setattr(roomy_cache, "_graph", record)
    monkeypatch.setattr(roomy_cache, "is_recordable", lambda _: True)
    return found


@pytest.mark.parametrize("architecture", RECORDABLE)
@torch.inference_mode()
def test_replayed_steps_give_the_answers_of_computed_ones(
    architecture: str, recordings: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(architecture)
    replayed = [_answers(model, most_tokens=most) for most in (600, 10_000)]
    assert model.tested["replays_steps"] is True
    assert len(recordings) > 2, "rows must wait, or the cache grow, for this test to mean anything"

    monkeypatch.setattr(roomy_cache, "is_recordable", lambda _: False)
    computed = _answers(model)
    assert replayed == [computed, computed]


@torch.inference_mode()
def test_steps_are_computed_if_replayed_ones_differ(recordings: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    monkeypatch.setattr(RoomyCache, "advance", lambda _: pytest.fail("a replayed step was used"))

    def record_once(step: Step) -> Step:
        recordings.append(step)
        step()
        return lambda: None  # as if everything were a constant of the recording

    monkeypatch.setattr(roomy_cache, "_graph", record_once)
    found = _answers(model)
    assert model.tested["replays_steps"] is False
    assert len(recordings) == 1
    assert found == _answers(small_model())


@pytest.mark.parametrize(("error", "tested"), [(RuntimeError, False), (torch.OutOfMemoryError, None)])
@torch.inference_mode()
def test_steps_that_cannot_be_recorded_are_computed(
    error: type[Exception], tested: bool | None, recordings: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()

    def fail(_: Step) -> Step:
        raise error("no")

    monkeypatch.setattr(roomy_cache, "_graph", fail)
    found = _answers(model)
    assert model.tested.get("replays_steps") is tested
    assert not recordings
    assert found == _answers(small_model())


def test_nothing_is_recorded_on_a_cpu() -> None:
    assert not is_recordable(small_model())
