"""Compares stated scores with scores computed from the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kgedit.records.scores import RunScores

TOLERANCE = 2e-6
"""Scores are rounded to six digits; sums on another processor may differ in the last digit."""

_OF_A_SCORE = ("stage", "model_state", "timestep", "axis", "preset", "metric")


def score_differences(told: RunScores, computed: RunScores, *, leave_out: frozenset[str] = frozenset()) -> list[str]:
    """Differences, each as a reason; of several different scores, the first ones and their number.

    Args:
        leave_out: Fields of RunScores that are not compared.
    """
    one, other = (_plain(scores, leave_out) for scores in (told, computed))
    reasons = _of_scores(one.pop("scores"), other.pop("scores"))
    paths = list(_differing(one, other, ""))
    if paths:
        reasons.append(f"scores.json and the scores computed from the run's files differ in {', '.join(paths[:5])}")
    return reasons


def _plain(scores: RunScores, leave_out: frozenset[str]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(scores)
    return {name: value for name, value in plain.items() if name not in leave_out}


def _of_scores(told: list[dict[str, Any]], computed: list[dict[str, Any]]) -> list[str]:
    one, other = ({_key(score): score for score in scores} for scores in (told, computed))
    wrong = [key for key in (*one, *(key for key in other if key not in one)) if _wrong(one.get(key), other.get(key))]
    if not wrong:
        return []
    key = wrong[0]
    means = [f"{score['mean']:.4f}" if (score := side.get(key)) else "nothing" for side in (one, other)]
    what = " ".join(str(part) for part in key if isinstance(part, str))
    return [
        f"scores that do not follow from the answers: {len(wrong):,}; the first: {what} is {means[0]} in scores.json, "
        f"and {means[1]} computed again. Measure it again: kgedit report --rescore RUN"
    ]


def _key(score: Mapping[str, Any]) -> tuple[object, ...]:
    state = score["model_state"]
    return tuple((state["timestep"], state["edits"]) if state and n == "model_state" else score[n] for n in _OF_A_SCORE)


def _wrong(told: Mapping[str, Any] | None, computed: Mapping[str, Any] | None) -> bool:
    return told is None or computed is None or next(_differing(told, computed, ""), None) is not None


def _differing(one: Any, other: Any, path: str) -> Iterator[str]:
    """Paths of the values that differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            yield from _differing(one.get(name), other.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from _differing(first, second, f"{path}[{index}]")
    elif isinstance(one, float) and isinstance(other, float | int):
        if abs(one - other) > TOLERANCE * max(1.0, abs(one)):
            yield path
    elif one != other:
        yield path
