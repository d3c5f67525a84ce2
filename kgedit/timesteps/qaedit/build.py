"""Builds edits from questions and answers: the rows of a QAEdit file, and counts of what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kgedit.names.index import name_key
from kgedit.timesteps.qaedit.categories import Category, english_categorizer
from kgedit.timesteps.qaedit.locality import LocalityDraw
from kgedit.timesteps.qaedit.rephrasing import Rephrasing, english_rephraser
from kgedit.timesteps.qaedit.subjects import Subject, SubjectFinder


@dataclass(frozen=True, slots=True)
class Worded:
    """Result of a model or the rules for one question; None if nothing was found."""

    subject: Subject | None
    rephrasing: Rephrasing | None
    category: Category


@dataclass(frozen=True, slots=True)
class BuiltRows:
    """The rows of a QAEdit file.

    Attributes:
        rows: Rows in the order of the questions.
        left_out: Reason -> number of questions without a row.
        done: Processing of the rows: "subject", "rephrase" or "category" -> rule -> number of rows.
    """

    rows: tuple[dict[str, Any], ...]
    left_out: Mapping[str, int]
    done: Mapping[str, Mapping[str, int]]


def distinct(questions: pa.Table) -> tuple[pa.Table, int]:
    """Remove duplicates, ignoring case and accents; the first is kept. Also returns the number removed."""
    seen: set[str] = set()
    keep = []
    for question in questions["question"].to_pylist():
        key = name_key(question)
        keep.append(key not in seen)
        seen.add(key)
    return questions.filter(pa.array(keep, pa.bool_())), keep.count(False)


def word_by_rules(questions: pa.Table, finder: SubjectFinder) -> Iterator[Worded]:
    """Subject, rephrasing and category of each question, in order."""
    rephraser, categorizer = english_rephraser(), english_categorizer()
    for question, topic in zip(questions["question"].to_pylist(), questions["topic"].to_pylist(), strict=True):
        subject = finder.find(question)
        rephrasing = rephraser.rephrase(question, subject.text) if subject else None
        yield Worded(subject, rephrasing, categorizer.categorize(question, topic))


def build_rows(questions: pa.Table, worded: Iterable[Worded], locality: LocalityDraw) -> BuiltRows:
    """Build the rows of a file.

    Args:
        questions: Table with the schema of `sources.QUESTIONS`.
        worded: Results for each question, in order.
        locality: Draws each row's locality questions.
    """
    rows: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    done: dict[str, Counter[str]] = {"subject": Counter(), "rephrase": Counter(), "category": Counter()}
    for question, words in zip(questions.to_pylist(), worded, strict=True):
        reason = _unusable(question, words)
        if reason:
            left_out[reason] += 1
            continue
        row = _row(question, words, locality)
        rows.append(row)
        for part, counts in done.items():
            counts[row[f"{part}_by"]] += 1
    return BuiltRows(tuple(rows), _sorted(left_out), {part: _sorted(counts) for part, counts in done.items()})


def _unusable(question: Mapping[str, Any], words: Worded) -> str | None:
    if words.subject is None:
        return "no subject found"
    answer = name_key(question["answer"])
    if not answer:
        return "an answer without letters and digits"
    if f" {answer} " in f" {name_key(question['question'])} ":
        return "the question gives its answer away"
    return None


def _row(question: Mapping[str, Any], words: Worded, locality: LocalityDraw) -> dict[str, Any]:
    subject, rephrasing = words.subject, words.rephrasing
    assert subject is not None
    assert rephrasing is not None
    drawn = locality.draw(question["question"], subject.text)
    return {
        "id": question["row"],
        "source": question["source"],
        "prompt": question["question"],
        "target": question["answer"],
        "subject": subject.text,
        "rephrase": rephrasing.text,
        "locality": [{"loc": one.question, "loc_ans": one.answer} for one in drawn],
        "aliases": question["aliases"],
        **({"subject_id": subject.entity} if subject.entity else {}),
        "category": words.category.name,
        "subject_by": subject.rule,
        "rephrase_by": rephrasing.rule,
        "category_by": words.category.rule,
    }


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def category_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Number of rows by category, in the order of the ten."""
    counts = Counter(row["category"] for row in rows)
    return {name: counts[name] for name in english_categorizer().names}
