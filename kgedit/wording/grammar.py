"""Entries of a template catalogue: missing wordings are derived from the noun phrase, and faults are found.

An entry needs a ``phrase`` ("the doctoral advisor of {subject}") and an ``answer`` type. Everything else may be written
by hand and takes precedence; the grammar only adds up to three rephrasings and five clozes. Slots, endings, articles,
leaks and duplicates are checked whenever a catalogue is read, after its entries are completed, so derived wordings
follow the same contract as written ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kgedit.wording.catalogues import MARK

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


SUBJECT_CLASSES = ("person", "organization", "place", "team", "work")
"""Classes of subjects for which an entry may have a variant."""

QUESTION_MARKS = ("?", "？")
"""The second is Chinese."""

_WORDINGS = {"question", "rephrase", "cloze", "phrase"}
_SETTINGS = {"answer", "kind", "tense"}
_NOTES = {"label", "example", "variants"}


Completer = Callable[[Mapping[str, Any]], Wordings]
"""Completes an entry: `complete`, or the rules of a language file."""


def entry_problems(
    name: str, entry: object, *, slots: tuple[str, ...], completed: Completer = complete, english: bool = True
) -> list[str]:
    """Problems of one entry, each prefixed with its name.

    Args:
        name: PID, or "generic".
        entry: Content of the catalogue under that name.
        slots: Names that each wording must contain in braces, once each.
        completed: Completes the entry.
        english: Whether the wordings follow the rules of English articles.
    """
    if not isinstance(entry, dict):
        return [f"{name}: is not a mapping with at least a phrase"]
    problems = _shape_problems(name, entry)
    if problems:
        return problems
    problems += [f"{name}: {fault}" for fault in _faults(completed(entry), slots, english=english)]
    for subject_class, variant in (entry.get("variants") or {}).items():
        problems += variant_problems(name, entry, subject_class, variant, slots, completed=completed, english=english)
    return problems


def variant_problems(
    name: str,
    entry: Mapping[str, object],
    subject_class: str,
    variant: object,
    slots: tuple[str, ...],
    *,
    completed: Completer = complete,
    english: bool = True,
) -> list[str]:
    """Problems of the wordings for one class of subjects."""
    named = f"{name} ({subject_class})"
    if subject_class not in SUBJECT_CLASSES:
        return [f"{named}: is not a class of subjects; there are {', '.join(SUBJECT_CLASSES)}"]
    if not isinstance(variant, dict) or not variant:
        return [f"{named}: is not a mapping of wordings"]
    problems = [f"{named}: unknown key '{key}'" for key in variant if key not in _WORDINGS | _SETTINGS]
    merged = merged_variant(entry, variant)
    problems += _shape_problems(named, merged)
    return problems or [f"{named}: {fault}" for fault in _faults(completed(merged), slots, english=english)]


def merged_variant(entry: Mapping[str, object], variant: Mapping[str, object]) -> dict[str, object]:
    """An entry overridden by its variant; if the variant has a phrase, no sentences of the entry are used."""
    kept = _SETTINGS if "phrase" in variant else _SETTINGS | _WORDINGS
    return {key: value for key, value in entry.items() if key in kept} | dict(variant)


def duplicates(wordings: Mapping[str, Wordings]) -> list[str]:
    """Problems of questions that two properties share."""
    asked = Counter(_letters(worded.question) for worded in wordings.values())
    return [
        f"{name}: asks the same question as another property"
        for name, worded in wordings.items()
        if asked[_letters(worded.question)] > 1
    ]


def _shape_problems(name: str, entry: Mapping[str, object]) -> list[str]:
    problems = [f"{name}: unknown key '{key}'" for key in entry if key not in _WORDINGS | _SETTINGS | _NOTES]
    if not isinstance(entry.get("phrase"), str):
        problems.append(f"{name}: phrase is missing or no text")
    if "question" in entry and not isinstance(entry["question"], str):
        problems.append(f"{name}: question is not text")
    for key in ("rephrase", "cloze"):
        value = entry.get(key)
        if value is not None and not isinstance(value, str) and not _is_list_of_texts(value):
            problems.append(f"{name}: {key} is neither a text nor a list of texts")
        elif value is not None and len(set(texts(value))) < len(texts(value)):
            problems.append(f"{name}: {key} contains a text twice")
    if entry.get("answer", "thing") not in ANSWERS:
        problems.append(f"{name}: answer must be one of {', '.join(ANSWERS)}")
    if entry.get("tense", "present") not in ("present", "past"):
        problems.append(f"{name}: tense must be present or past")
    if not isinstance(entry.get("kind", ""), str):
        problems.append(f"{name}: kind is not text")
    if not isinstance(entry.get("variants") or {}, dict):
        problems.append(f"{name}: variants must be a mapping")
    return problems


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _faults(worded: Wordings, slots: tuple[str, ...], *, english: bool) -> list[str]:
    asking, telling = (worded.question, *worded.rephrases), (*worded.clozes, worded.phrase)
    faults = []
    for kind, group in (("question", asking[:1]), ("rephrase", asking[1:]), ("cloze", worded.clozes)):
        for text in group:
            faults += [f"{kind} {fault}" for fault in _text_faults(text, slots, english=english)]
    faults += [f"phrase {fault}" for fault in _text_faults(worded.phrase, slots, english=english)]
    for text in asking:
        if not text.endswith(QUESTION_MARKS) or sum(map(text.count, QUESTION_MARKS)) != 1:
            faults.append(f'question or rephrase does not end in one "?": {text}')
    faults += [
        f"cloze or phrase ends in a punctuation mark: {text}"
        for text in telling
        if text.endswith((".", "?", "!", ":", ",", "。", "？", "！", "：", "，"))
    ]
    faults += [
        f"cloze ends in an article that the answer decides: {text}"
        for text in worded.clozes
        if english and re.search(r" an?$", text)
    ]
    faults += [f"says the same words twice: {text}" for text in _twice(asking) + _twice(worded.clozes)]
    if len(worded.rephrases) < REPHRASINGS or len(worded.clozes) < CLOZES:
        faults.append(f"has fewer than {REPHRASINGS} rephrasings or {CLOZES} clozes")
    return faults


def _text_faults(text: str, slots: tuple[str, ...], *, english: bool) -> list[str]:
    faults = [f"must hold {{{slot}}} exactly once" for slot in slots if text.count(f"{{{slot}}}") != 1]
    rest = text
    for slot in slots:
        rest = rest.replace(f"{{{slot}}}", "")
    if "{" in rest or "}" in rest:
        faults.append("contains a stray brace")
    if " ".join(text.split()) != text:
        faults.append("contains spaces at an end or in a row")
    if english and re.search(r"\b(a|an|the) \{subject\}", text, re.IGNORECASE):
        faults.append("has an article before the subject, which brings its own")
    if "{subject}'" in text:
        faults.append("puts a possessive on the subject, which may be a phrase")
    if re.search(r"\b[PQ]\d+\b", text):
        faults.append("contains the id of an entity")
    if (
        english
        and re.search(r"\ba [aeio]\w|\ban [bcdfgjklmnpqrstvwxyz]\w", rest)
        and not re.search(r"\ba (one|eu)", rest)
    ):
        faults.append("has the wrong one of a and an")
    if re.search(r"\b(\w+) \1\b", rest, re.IGNORECASE):
        faults.append("says a word twice in a row")
    return faults


def _twice(group: tuple[str, ...]) -> list[str]:
    counted = Counter(_letters(text) for text in group)
    return [text for text in group if counted[_letters(text)] > 1]


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()
