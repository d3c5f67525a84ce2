"""Replies: the result of a backend for one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from kgedit.llm.presets import STOPS
from kgedit.llm.sentences import first_sentence


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's reply to one question; the fields are those of `Answer`."""

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
    """Build a reply from the results of teacher forcing.

    Args:
        gold: Result of the gold answer.
        old: Results of the answers from before the edit.
        static: Results of the answers that remain correct.
        alternatives: Results of the answers that were never correct.
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
    """Apply a truncation module to a complete text, and strip surrounding white space."""
    for stop in STOPS[truncation]:
        text = text.partition(stop)[0]
    return (first_sentence(text) if truncation == "sentence" else text).strip()


def match_of(ids: Sequence[int], gold: Sequence[int]) -> float:
    """Share of the gold answer's tokens that are generated at the same index."""
    return sum(a == b for a, b in zip(ids, gold, strict=False)) / len(gold)


def six_digits(value: float) -> float:
    """Round a probability to the stored precision."""
    return float(f"{value:.6g}")
