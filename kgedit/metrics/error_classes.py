"""Classifies the errors of wrong free answers, by rules that can be checked by hand.

The first matching class is used:

empty                 no word.
repetition            one to eight words three times in a row, or at least twelve words of which fewer than half of the
                      pairs of adjacent words are distinct.
old answer            contains an answer that was correct before the edit, and none that is correct now.
more than the answer  contains the complete answer and other words: wrong by exact match.
irrelevant            no content: asks a question back, or has only function words and words of the question.
incorrect             any other answer.

After the errors that WILD makes visible (Mirage, section 6.3: repetition, irrelevant and incorrect information).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from kgedit.metrics.containment import contains
from kgedit.metrics.normalization import normalize
from kgedit.records.answers import ErrorClass

_LONGEST_REPEATED = 8
_WORDS_OF_A_LONG_TEXT = 12
_FUNCTION_WORD = re.compile(
    "and|are|as|at|be|been|by|did|do|does|for|from|had|has|have|he|her|his|i|in|is|it|its|me|my|no|not|of|on|one|or|our|"
    "she|so|some|that|their|them|there|these|they|this|those|to|up|us|was|we|were|what|when|where|which|who|whom|whose|"
    "why|will|with|would|yes|you|your|answer|question|q"
)


def classify_error(text: str, *, question: str, answers: Sequence[str], old_answers: Sequence[str] = ()) -> ErrorClass:
    """Classify a wrong answer.

    Args:
        text: Answer, as generated and truncated.
        question: Question, as evaluated.
        answers: Accepted answers.
        old_answers: Answers that were correct before the edit.

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
    """Whether words are repeated more than in ordinary sentences."""
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
