"""Replies, the result of a backend for one question, and the end of an answer's first sentence.

Stops such as "。" end a sentence. A period ends most, but is also a part of "A.S. Roma", "St. Louis", "3.5" and "1. FC
Köln". Often only the text after a period shows which one it is: decoding continues while the end is unknown. A decision
never changes with later text, so an answer is the same whether it is truncated during decoding or from the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from kgedit.llm.presets import STOPS


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
    thoughts: str = ""
    thoughts_cut: bool = False


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


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = _words(
    "adm brig capt cmdr col cpl dr fr gen gov hon lt maj mlle mme mr mrs ms msgr prof rep rev sen sgt st sta ste "
    "ave blvd dept dist ft hwy mt mtn rd sq aka al approx ca cf eg etc feat ie incl viz vs "
    "assn assoc bros co corp esq inc inst intl jr ltd llc ph phd sr univ"
)
"""Words written with a period that more often precedes a name than ends a sentence."""
_BEFORE_NUMBERS = _words("art ch est fig figs no nos nr op pp pt sec vol vols jan feb apr aug sept oct nov dec")
"""Words that are abbreviations only before a number: "No. 10", but "No. It is Paris"."""
_OPENERS = _words(
    "A After All Also An And As At Because Before But By During For From He Her Here His However How I If In It Its My "
    "Now On Our She Since So That The Their Then There These They This Those Though Thus To Until We What When Where "
    "Which While Who Why With Yes You Your"
)
"""Words that begin a sentence and rarely continue a name: an abbreviation before them ended a sentence."""


_CLOSERS = "\"'”’»)]」』》）】"
_STOPS = "。｡！？।॥۔።။។"
"""Always end a sentence outside quotations, because no abbreviation contains them: full-width and half-width stops,
danda, and the full stops of Urdu, Ethiopic, Burmese and Khmer."""
SENTENCE_ENDS = (".", *_STOPS)
"""Characters that may end a sentence. "!" and "?" do not, because they occur in names such as Yahoo!"""
_PERIODS = re.compile(rf"\.+|[{_STOPS}]+")
_QUOTES = (("「", "」"), ("『", "』"), ("《", "》"), ("（", "）"), ("【", "】"), ("“", "”"))
_WORD_BEFORE = re.compile(r"[^\s\"'“”‘’«»(\[\])]+$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.-?)*[^\W\d_]")
"""Matches the text before the last period of "J.", "A.S." and "J.-P."."""
_WORD_AFTER = re.compile(r"\s+[\"'“‘«(\[]*(\w[\w’'-]*)?(.?)", re.DOTALL)
"""The next word and the character after it; without one, the word may be incomplete."""
_ORDINAL = re.compile(r"\d{1,2}")
_DIVISION = re.compile(r"[A-ZÄÖÜ]{2,4}|\w*[Ll]ig[ae]|Division")
"""Words after an ordinal in names of clubs and leagues, as in "1. FC Köln" and "2. Bundesliga"."""
_SHORTEST_WORD_RUN_TOGETHER = 3  # shorter ones are initials and abbreviations


def first_sentence(text: str) -> str:
    """Return the first sentence of a complete text with its period, or the whole text if no sentence ends."""
    end = sentence_end(text, is_whole=True)
    return text if end is None else text[:end]


def sentence_end(text: str, *, is_whole: bool) -> int | None:
    """Return the length of the first sentence.

    Args:
        text: A text, or its part decoded so far.
        is_whole: Whether the text is complete.

    Returns:
        Length in characters, including the period and closing quotes or brackets after it. None if no sentence ends, or
        if that depends on the text that follows.
    """
    if not is_whole:
        text = text.rstrip("\N{REPLACEMENT CHARACTER}")  # an incomplete character until its other bytes are decoded
    for match in _PERIODS.finditer(text):
        behind = text[match.end() :].lstrip(_CLOSERS)
        end = len(text) - len(behind)
        if not behind:
            return end if is_whole else None
        if match.group()[0] in _STOPS:
            if _is_quoted(text[: match.start()]) or not text[: match.start()].strip():
                continue
            return end
        ends = _ends_sentence(text[: match.start()], behind, is_whole=is_whole)
        if ends is None:
            return None
        if ends:
            return end
    return None


def _is_quoted(text: str) -> bool:
    """Whether a text ends inside a quotation or a title, such as before the stop in 『けいおん！』."""
    return any(text.count(opener) > text.count(closer) for opener, closer in _QUOTES)


def _ends_sentence(before: str, behind: str, *, is_whole: bool) -> bool | None:
    """Whether a period between two texts ends a sentence; None if more text is needed to decide."""
    if not before.strip():
        return False
    found = _WORD_BEFORE.search(before)
    word = found.group() if found else ""
    after = _WORD_AFTER.match(behind)
    if after is None:
        return _is_run_together(word, behind)
    if not (_is_short(word) or _ORDINAL.fullmatch(word) or word.lower() in _BEFORE_NUMBERS):
        return True
    following, next_character = after.group(1) or "", after.group(2)
    if not (next_character or is_whole):
        return None
    if len(following) == 1 and next_character == ".":  # another initial, which may be A or I
        return False
    return _opens_sentence(before.removesuffix(word), word, following)


def _is_run_together(word: str, behind: str) -> bool:
    """Whether two sentences lack a space between them, as in "It is Paris.The capital", but not in "3.5" and "A.S."."""
    is_word = word.isalpha() and len(word) >= _SHORTEST_WORD_RUN_TOGETHER and not _is_short(word)
    return is_word and behind[0].isupper()


def _is_short(word: str) -> bool:
    """Whether a word is initials or an abbreviation."""
    return bool(_INITIALS.fullmatch(word)) or word.lower() in _ABBREVIATIONS


def _opens_sentence(before: str, word: str, following: str) -> bool:
    """Whether a word begins a sentence after initials, an abbreviation or a number."""
    if _is_short(word):
        return following in _OPENERS
    if word.lower() in _BEFORE_NUMBERS:
        return not following[:1].isdecimal()
    begins_list = not before.strip()
    return not (begins_list or following[:1].islower() or _DIVISION.fullmatch(following))


# Asked with reasoning, a model first writes up to `Preset.thinking_tokens` tokens. If it has not closed the passage by
# then, it is closed, so that an answer follows in any case (budget forcing: Muennighoff et al. 2025, s1). Asked
# without, the prompt contains an empty passage, so that the first sentence of an answer is not one of thoughts, and
# edits are trained on answers.


_MARKS = (
    ("<think>", "</think>"),  # DeepSeek-R1, Qwen 3, QwQ, SmolLM3, GLM
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A Reasoning
)
"""Texts that open and close a passage of reasoning, with the models that have them."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model reasons in a chat.

    Attributes:
        opens: Text that opens the passage.
        closes: Text that closes it.
        before: Text of the chat template before the user turn, when the model is to reason.
        after: Text between the user turn and the reasoning, including the opening mark.
        has_switch: Whether the template has `enable_thinking`, so that a server can be asked for either.
    """

    opens: str
    closes: str
    before: str
    after: str
    has_switch: bool

    @property
    def closing(self) -> str:
        """Text from the last thought to the answer."""
        return f"{self.closes}\n\n"


def find_thinking(tokenizer: Any, *, without: str, reasoning: str, asked: str) -> Thinking | None:
    """How a model reasons; None if its tokenizer has no marks for it.

    Args:
        without: A chat up to the answer, rendered with ``enable_thinking=False``.
        reasoning: The same chat, rendered with ``enable_thinking=True``.
        asked: The user's turn in both.
    """
    known = {token.content for token in tokenizer.added_tokens_decoder.values()}
    marks = next((pair for pair in _MARKS if pair[1] in known or any(m in without + reasoning for m in pair)), None)
    if marks is None:
        return None
    before, _, after = reasoning.partition(asked)
    opened = after if is_open(after, marks) else f"{after}{marks[0]}\n"
    return Thinking(*marks, before, opened, has_switch=without != reasoning)


def is_open(text: str, marks: tuple[str, str]) -> bool:
    """Whether a text ends where a passage of reasoning begins."""
    return text.rstrip().endswith(marks[0])


def without_thoughts(text: str) -> tuple[str, str]:
    """Split a server's reply into thoughts and answer; an unclosed passage leaves no answer."""
    for opens, closes in _MARKS:
        thoughts, closed, answer = text.partition(closes)
        if closed:
            return thoughts.replace(opens, "", 1).strip(), answer.lstrip()
        if text.lstrip().startswith(opens):
            return text.replace(opens, "", 1).strip(), ""
    return "", text
