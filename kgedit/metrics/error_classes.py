"""What is wrong with a wrong free answer, by rules that anyone can check by hand.

The first class that fits counts:

empty                 no word.
repetition            one to eight words three times in a row, or, of twelve words or more, fewer than half of the pairs
                      of neighbouring words are different.
old answer            holds an answer that was right before the edit, and none that is now.
more than the answer  holds the answer in full, and other words: what exact match calls wrong.
irrelevant            says nothing: asks a question back, or has no word but function words and words of the question.
incorrect             says something else.

After the errors that WILD makes visible (Mirage, section 6.3: repetition, irrelevant and incorrect information).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from kgedit.metrics.containment import contains
from kgedit.metrics.normalization import normalize
from kgedit.records.error_classes import ErrorClass

_LONGEST_REPEATED = 8
_WORDS_OF_A_LONG_TEXT = 12
_FUNCTION_WORD = re.compile(
    "and|are|as|at|be|been|by|did|do|does|for|from|had|has|have|he|her|his|i|in|is|it|its|me|my|no|not|of|on|one|or|our|"
    "she|so|some|that|their|them|there|these|they|this|those|to|up|us|was|we|were|what|when|where|which|who|whom|whose|"
    "why|will|with|would|yes|you|your|answer|question|q"
)


def classify_error(text: str, *, question: str, answers: Sequence[str], old_answers: Sequence[str] = ()) -> ErrorClass:
    """The class of an answer that is wrong.

    Args:
        text: As generated and truncated.
        question: As asked.
        answers: Accepted answers.
        old_answers: Those that were right before the edit.

    >>> classify_error("Paris Paris Paris", question="Where?", answers=["Rome"])
    'repetition'
    """
    words = normalize(text).split()
    if not words:
        return "empty"
    if repeats(words):
        return "repetition"
    holds_answer = any(contains(text, answer) for answer in answers)
    if not holds_answer and any(contains(text, old) for old in old_answers):
        return "old answer"
    if holds_answer:
        return "more than the answer"
    return "irrelevant" if _says_nothing(text, words, question) else "incorrect"


def repeats(words: Sequence[str]) -> bool:
    """Whether words are repeated as no sentence does it."""
    pairs = list(pairwise(words))
    if len(words) >= _WORDS_OF_A_LONG_TEXT and len(set(pairs)) < len(pairs) / 2:
        return True
    return any(_three_in_a_row(words, length) for length in range(1, _LONGEST_REPEATED + 1))


def _three_in_a_row(words: Sequence[str], length: int) -> bool:
    run = 0
    for earlier, later in zip(words, words[length:], strict=False):
        run = run + 1 if earlier == later else 0
        if run == 2 * length:
            return True
    return False


def _says_nothing(text: str, words: Sequence[str], question: str) -> bool:
    known = set(normalize(question).split())
    return text.rstrip().endswith("?") or all(word in known or _FUNCTION_WORD.fullmatch(word) for word in words)
