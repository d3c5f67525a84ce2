"""Finds faults in the entries of a template catalogue: slots, endings, articles, leaks, duplicates.

A catalogue is linted whenever it is read, after its entries are completed, so derived wordings follow the same contract
as written ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kgedit.wording.grammar import ANSWERS, CLOZES, REPHRASINGS, Wordings, complete, texts

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
