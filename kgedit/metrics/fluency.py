"""Fluency as n-gram entropy, which is low for repetitive text. Only meaningful for long free answers.

WikiFactDiff's table 7 gives 2/3 H2 + 4/3 H3, which is `fluency`. The numbers of its table 6 (5.2 for GPT-J), and those
of ROME, MEMIT and EasyEdit (there times 100), are the mean of the two weighted entropies, which is half of that, and
count punctuation marks as words: `ngram_entropy`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from kgedit.metrics.contract import Earlier, Metric
from kgedit.records.runs import Answer

_TOKEN = re.compile(r"\w+(?:[-.,'’]\w+)*|[^\w\s]")
"""A word, including inner punctuation (3.5; 26,000; well-known), or a punctuation mark.

The published code uses NLTK's word_tokenize, which needs a downloaded sentence model; it also splits "don't".
"""


def _judge(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    return _weighted(answer.text.split())


def _judge_published(answer: Answer, before: Earlier | None) -> float:  # noqa: ARG001 - the signature of every metric
    return _weighted(_TOKEN.findall(answer.text)) / 2


def _weighted(words: Sequence[str]) -> float:
    return 2 / 3 * _entropy(words, 2) + 4 / 3 * _entropy(words, 3)


def _entropy(words: Sequence[str], n: int) -> float:
    """Entropy in bits of the relative n-gram frequencies; 0 if there are none."""
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

NGRAM_ENTROPY = Metric(
    name="ngram_entropy",
    minimum=0.0,
    maximum=math.inf,
    higher_is_better=True,
    formula="1/3 H2 + 2/3 H3, with Hn the entropy in bits of the frequencies of n-grams of words and punctuation "
    "marks, without the prompt",
    citation="WikiFactDiff (Ammar Khodja et al. 2024), table 6 and its released code; times 100 in ROME (Meng et al. "
    "2022), table 4",
    generation="free",
    of_correctness=False,
    judge=_judge_published,
)
