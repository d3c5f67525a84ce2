"""What a backend makes of a model's tokens: the reply to one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from kgedit.llm.presets import STOPS
from kgedit.llm.sentences import first_sentence


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's reply to one question; its fields are those of an Answer."""

    text: str
    token_match: float | None
    prompt_tokens: int
    new_tokens: int
    seconds: float
    probability: float | None = None
    old_probability: float | None = None
    static_probability: float | None = None
    alternative_probability: float | None = None
    highest_alternative: float | None = None


def fed_reply(
    reply: Reply, gold: float, old: Sequence[float], static: Sequence[float], alternatives: Sequence[float]
) -> Reply:
    """A reply with the probabilities of all that was fed.

    Args:
        gold: Of the gold answer.
        old: Of the answers before the edit.
        static: Of those that stay right.
        alternatives: Of those that never were.
    """
    return replace(
        reply,
        probability=six_digits(gold),
        old_probability=six_digits(max(old)) if old else None,
        static_probability=six_digits(fmean(static)) if static else None,
        alternative_probability=six_digits(fmean(alternatives)) if alternatives else None,
        highest_alternative=six_digits(max(alternatives)) if alternatives else None,
    )


def truncate(text: str, truncation: str) -> str:
    """A whole text as a truncation module leaves it, without surrounding space."""
    for stop in STOPS[truncation]:
        text = text.partition(stop)[0]
    return (first_sentence(text) if truncation == "sentence" else text).strip()


def match_of(ids: Sequence[int], gold: Sequence[int]) -> float:
    """Share of the gold answer's tokens that stand at their index among the generated ones."""
    return sum(a == b for a, b in zip(ids, gold, strict=False)) / len(gold)


def six_digits(value: float) -> float:
    """As probabilities are stored."""
    return float(f"{value:.6g}")
