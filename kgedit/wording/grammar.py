"""Completes the entries of a template catalogue: missing wordings are derived from the noun phrase.

An entry needs a ``phrase`` ("the doctoral advisor of {subject}") and an ``answer`` type. Everything else may be written
by hand and takes precedence; the grammar only adds up to three rephrasings and five clozes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgedit.wording.languages import MARK

ANSWERS: Mapping[str, str] = {
    "person": "person",
    "agent": "person or organization",
    "organization": "organization",
    "team": "team",
    "place": "place",
    "country": "country",
    "work": "work",
    "event": "event",
    "language": "language",
    "thing": "",
    "number": "",
    "time": "",
}
"""Noun after "which" for each type of answer; "" if the type has no such noun."""

REPHRASINGS = 3
"""Rephrasings that a complete entry has at least."""

CLOZES = 5
"""One cloze to edit with and four that test generalization (WikiFactDiff, section 5)."""

_TENSES = {"present": "is", "past": "was"}


@dataclass(frozen=True, slots=True)
class Wordings:
    """All wordings of one property for one class of subjects, each with {subject} once.

    Attributes:
        question: Question that ends in "?".
        rephrases: Three other questions with the same meaning.
        clozes: Five sentences that end before the answer; the first one is the update.
        phrase: Noun phrase for the answer, which replaces the subject of a second question.
        answer: One of ANSWERS.
        tense: "present" or "past".
    """

    question: str
    rephrases: tuple[str, ...]
    clozes: tuple[str, ...]
    phrase: str
    answer: str
    tense: str


def complete(entry: Mapping[str, Any]) -> Wordings:
    """Wordings of an entry, with missing ones derived.

    Args:
        entry: A checked entry: ``phrase`` and optionally ``answer``, ``kind`` (the noun after "which"),
            ``tense``, ``question``, ``rephrase`` and ``cloze`` (one text or a list).
    """
    phrase, answer, tense = entry["phrase"], entry.get("answer", "thing"), entry.get("tense", "present")
    # "the place where {subject} died" contains a verb: a second one in the past would be one too many.
    verb = _TENSES["present" if re.search(r" (where|which|that|whom) ", phrase) else tense]
    question = entry.get("question") or f"{'Who' if answer in ('person', 'agent') else 'What'} {verb} {phrase}?"
    rephrases = _filled(
        texts(entry.get("rephrase")),
        _rephrasings(phrase, answer, verb, kind=entry.get("kind") or ANSWERS[answer]),
        REPHRASINGS,
        without=question,
    )
    written = texts(entry.get("cloze")) or (f"{_capital(phrase)} {verb}",)
    clozes = _filled(written, _clozes(phrase, written[0], verb), CLOZES)
    return Wordings(question, rephrases, clozes, phrase, answer, tense)


def complete_by(rules: Mapping[str, Any], entry: Mapping[str, Any]) -> Wordings:
    """Wordings of an entry, with missing ones derived by the rules of a language file.

    Args:
        rules: Under "who" and "what", or a type of answer: question, rephrase and cloze with {phrase}, or {Phrase} at
            the beginning.
        entry: See `complete`.
    """
    phrase, answer, tense = entry["phrase"], entry.get("answer", "thing"), entry.get("tense", "present")
    own = rules.get(answer, rules["who" if answer in ("person", "agent") else "what"])

    def derived(name: str, *written: str) -> tuple[str, ...]:
        made = (
            text.format(phrase=MARK + phrase, Phrase=_capital(phrase), subject="{subject}") for text in texts(own[name])
        )
        return tuple(text for text in made if text.replace(MARK, "") not in written)

    question = entry.get("question") or derived("question")[0]
    written = texts(entry.get("rephrase"))
    rephrases = _filled(written, derived("rephrase", question, *written), REPHRASINGS)
    written = texts(entry.get("cloze"))
    clozes = _filled(written, derived("cloze", *written), CLOZES)
    return Wordings(question, rephrases, clozes, MARK + phrase, answer, tense)


def texts(value: object) -> tuple[str, ...]:
    """One text or a list of texts as a tuple; empty for None."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]


def _rephrasings(phrase: str, answer: str, verb: str, *, kind: str) -> tuple[str, ...]:
    last = f"If someone asks for {phrase}, what is the right answer?"
    if answer == "number":
        return (f"What is {phrase}?", f"Can you tell me {phrase}?", f"What figure is given for {phrase}?", last)
    if answer == "time":
        return (f"What {verb} {phrase}?", f"Can you tell me {phrase}?", f"What do the records give as {phrase}?", last)
    named = phrase.startswith((f"the {kind} ", "the person ", "the body ", "the group "))
    which = () if not kind or named else (f"Which {kind} {verb} {phrase}?",)
    if answer in ("person", "agent"):
        return (*which, f"What is the name of {phrase}?", f"Can you tell me who {phrase} {verb}?", last)
    return (*which, f"Can you tell me what {phrase} {verb}?", f"What would you name as {phrase}?", last)


def _clozes(phrase: str, first: str, verb: str) -> tuple[str, ...]:
    lowered = first if first.startswith("{") else first[0].lower() + first[1:]
    return (
        f"{_capital(phrase)} {verb}",
        f"As far as is known, {lowered}",
        f"The answer to a question about {phrase} is",
        f"According to the records, {phrase} {verb}",
        f"It is a fact that {lowered}",
        f"Whoever looks up {phrase} will find",
    )


def _filled(written: tuple[str, ...], derived: tuple[str, ...], wanted: int, *, without: str = "") -> tuple[str, ...]:
    once = dict.fromkeys((*written, *(text for text in derived if text != without)))
    return tuple(once)[: max(wanted, len(written))]


def _capital(text: str) -> str:
    return text if text.startswith("{") else text[0].upper() + text[1:]
