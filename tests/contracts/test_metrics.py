"""Every metric states range, direction, formula and citation, keeps to its range, and has a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world.small_runs import SYNTHETIC, WILD, answer

from kgedit.metrics import METRICS, Earlier, Metric
from kgedit.records.cases import AXES

UNIT_TESTS = Path(__file__).resolve().parents[1] / "unit" / "metrics"
TEXT = st.text(max_size=30)
SHARE = st.none() | st.floats(0, 1)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_states_what_it_is(name: str) -> None:
    metric = METRICS[name]
    assert isinstance(metric, Metric)
    assert metric.name == name
    assert metric.minimum < metric.maximum
    assert isinstance(metric.higher_is_better, bool)
    assert len(metric.formula) > 20
    assert any(character.isdigit() for character in metric.citation), "a citation names a year"
    assert metric.axes
    assert set(metric.axes) <= set(AXES)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_a_test(name: str) -> None:
    text = (UNIT_TESTS / "test_answer_metrics.py").read_text(encoding="utf-8")
    assert any(f'{call}"{name}"' in text for call in ("judge(", "METRICS[", "score("))


@pytest.mark.parametrize("name", METRICS)
@settings(deadline=None, max_examples=40)
@given(
    text=TEXT,
    gold=st.text(min_size=1, max_size=30),
    alias=TEXT,
    before=st.none() | st.builds(Earlier, TEXT, SHARE),
    measured=st.tuples(SHARE, SHARE, SHARE),
)
def test_a_metric_keeps_to_its_range(
    name: str, text: str, gold: str, alias: str, before: Earlier | None, measured: tuple[float, float, float]
) -> None:
    metric = METRICS[name]
    result = dict(zip(("token_match", "probability", "old_probability"), measured, strict=True))
    for preset in (SYNTHETIC, WILD):
        given_answer = answer(of=preset, text=text, answers=(gold, alias), axis=metric.axes[0], **result)
        value = metric.judge(given_answer, before)
        assert value is None or metric.minimum <= value <= metric.maximum


@pytest.mark.parametrize("name", [name for name in METRICS if METRICS[name].of_correctness])
@settings(deadline=None, max_examples=40)
@given(gold=st.text(min_size=1, max_size=30).filter(str.strip))
def test_the_gold_answer_itself_gets_the_best_value(name: str, gold: str) -> None:
    metric = METRICS[name]
    preset = SYNTHETIC if metric.generation == "teacher_forcing" else WILD
    best = answer(of=preset, text=gold, answers=(gold,), axis=metric.axes[0], token_match=1.0)
    assert metric.applies_to(best)
    assert metric.judge(best, Earlier(gold)) == (metric.maximum if metric.higher_is_better else metric.minimum)


def test_asking_for_a_name_does_not_need_the_part() -> None:
    assert "exact_match" in METRICS
    assert "exact_macth" not in METRICS
