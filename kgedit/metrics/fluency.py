"""Fluency as n-gram entropy: a text that repeats itself has little. It says something of long free answers only."""

from __future__ import annotations

import math
from collections import Counter

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    words = answer.text.split()
    return 2 / 3 * _entropy(words, 2) + 4 / 3 * _entropy(words, 3)


def _entropy(words: list[str], n: int) -> float:
    """Entropy in bits of the n-grams' relative frequencies; 0 where there is none."""
    grams = Counter(zip(*(words[start:] for start in range(n)), strict=False))
    return -sum(count / grams.total() * math.log2(count / grams.total()) for count in grams.values()) + 0.0


FLUENCY = Metric(
    name="fluency",
    minimum=0.0,
    maximum=math.inf,
    higher_is_better=True,
    formula="2/3 H2 + 4/3 H3, with Hn the entropy in bits of the frequencies of n-grams of words, without the prompt",
    citation="Meng et al. 2022, ROME, section 3.4; WikiFactDiff (Ammar Khodja et al. 2024), table 7; Zhang et al. 2018",
    generation="free",
    of_correctness=False,
    judge=_judge,
)
