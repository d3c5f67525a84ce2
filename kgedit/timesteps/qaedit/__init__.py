"""QAEdit: question-answering datasets as edits, with subject, rephrasing, locality and topic (Mirage, appendix A.2).

Edits are built from questions and answers: the rows of a QAEdit file, and counts of what was left out. A row has a
topic and a locality question, which is drawn from another file, so that it is not about the row's subject. The file and
its provenance are NAME.json and NAME.provenance.json in one folder.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.files import replace_file
from kgedit.resources import data_folder
from kgedit.timesteps.qaedit.question_rules import Rephrasing, Subject, SubjectFinder, english_rephraser
from kgedit.wording.catalogues import content_hash, read_catalogue, refuse
from kgedit.wording.name_index import name_key, words_of


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
    if not name_key(question["answer"]):
        return "an answer without letters and digits"
    if _names(question, question["answer"]):
        return "the question gives its answer away"
    return None


def _names(question: Mapping[str, Any], answer: str) -> bool:
    """Whether a question contains an answer as whole words, ignoring case and accents."""
    return f" {name_key(answer)} " in f" {name_key(question['question'])} "


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
        "aliases": [alias for alias in question["aliases"] if not _names(question, alias)],
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


REST = "Others"
"""Category of questions without a word of any other category."""


@dataclass(frozen=True, slots=True)
class Category:
    """A topic.

    Attributes:
        name: Name of one of the ten.
        rule: Evidence: "topic of the source", "words", "none" or "model".
    """

    name: str
    rule: str


class Categorizer:
    """Classifies questions by topic.

    Args:
        catalogue: Topics and words by category, as in prompts/qaedit/categories.yaml.
    """

    def __init__(self, catalogue: Mapping[str, Any]) -> None:
        self.names = tuple(catalogue)
        self._topics = {topic: name for name, entry in catalogue.items() for topic in entry["topics"]}
        self._patterns = {name: _pattern(entry["words"]) for name, entry in catalogue.items() if entry["words"]}

    def categorize(self, question: str, topic: str | None = None) -> Category:
        """Classify a question.

        Args:
            topic: Name of the topic in its source; None without one.
        """
        if topic in self._topics:
            return Category(self._topics[topic], "topic of the source")
        text = " ".join(word.text for word in words_of(question))
        counts = {name: len(set(pattern.findall(text))) for name, pattern in self._patterns.items()}
        best = max(counts, key=lambda name: counts[name], default=REST)
        return Category(best, "words") if counts.get(best) else Category(REST, "none")


@cache
def english_categorizer() -> Categorizer:
    """Categorizer with the shipped topics."""
    path = data_folder("prompts") / "qaedit" / "categories.yaml"
    categories = read_catalogue(path).get("categories")
    wrong = [] if isinstance(categories, dict) else ["'categories' must be a mapping"]
    for name, entry in (categories or {}).items():
        if not isinstance(entry, dict) or not isinstance(entry.get("topics"), list) or "words" not in entry:
            wrong.append(f"{name}: needs topics and words")
    refuse(path, wrong)
    assert isinstance(categories, dict)
    return Categorizer(categories)


def _pattern(lines: list[str]) -> re.Pattern[str]:
    """Pattern that matches a word or phrase of the lines in text whose words are separated by single spaces."""
    terms = [term for line in lines for term in (line.split("|") if "|" in line else line.split())]
    parts = [re.escape(_plain(term.removesuffix("*"))) + (r"\w*" if term.endswith("*") else "") for term in terms]
    return re.compile(rf"\b(?:{'|'.join(sorted(set(parts), key=lambda part: (-len(part), part)))})\b")


def _plain(term: str) -> str:
    return " ".join(word.text for word in words_of(term))


_FIRST_DRAWS = 200
"""Draws for one row before the whole pool is searched; if all of them are about its subject, it is about one thing."""


@dataclass(frozen=True, slots=True)
class LocalityQuestion:
    """A question whose answer an edit must not change."""

    question: str
    answer: str


class LocalityDraw:
    """Draws questions for rows, each row with a separate seed, so that rows do not depend on one another.

    Args:
        pool: Questions to draw from, in file order.
        size: Number of questions per row.
        seed: Seed of all draws.
    """

    def __init__(self, pool: Sequence[LocalityQuestion], *, size: int, seed: int) -> None:
        self._pool = pool
        self._own = [name_key(one.question) for one in pool]
        self._keys = [f" {own} {name_key(one.answer)} " for own, one in zip(self._own, pool, strict=True)]
        self._size = size
        self._seed = seed

    def draw(self, question: str, subject: str) -> list[LocalityQuestion]:
        """Draw questions for a row that do not name its subject; fewer if the pool has no more."""
        chance = random.Random(f"{self._seed}:{question}")
        own, about = name_key(question), f" {name_key(subject)} "
        chosen: dict[int, LocalityQuestion] = {}
        for number in self._drawn(chance, chosen):
            if len(chosen) == min(self._size, len(self._pool)):
                break
            if about not in self._keys[number] and self._own[number] != own:
                chosen.setdefault(number, self._pool[number])
        return list(chosen.values())

    def _drawn(self, chance: random.Random, chosen: Mapping[int, LocalityQuestion]) -> Iterator[int]:
        """Numbers of questions at random: some with repetitions, then each once if any of the first was chosen."""
        count = len(self._pool)
        yield from (chance.randrange(count) for _ in range(_FIRST_DRAWS if count else 0))
        if chosen:
            yield from chance.sample(range(count), count)


FORMAT = 1
"""Version of the provenance."""


def provenance_path(path: Path) -> Path:
    """Path of the provenance of a file."""
    return path.with_name(f"{path.stem}.provenance.json")


def refuse_to_replace(path: Path, *, overwrite: bool) -> None:
    """Check that a file may be written.

    Raises:
        TimestepError: if it exists, or its folder does not.
    """
    if path.exists() and not overwrite:
        raise TimestepError(f"{path} already exists. Replace it: --overwrite")
    if not path.absolute().parent.is_dir():
        raise TimestepError(f"There is no folder {path.absolute().parent} for the file. Make it: mkdir -p")


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Write a JSON list with one object per line, and its provenance.

    Returns:
        The provenance with the number of rows and the hash of the list.
    """
    content = "".join(_lines(rows)).encode()
    record = {**provenance, "rows": len(rows), "sha256": hashlib.sha256(content).hexdigest()}
    replace_file(path, content)
    replace_file(provenance_path(path), json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return record


def rules_hash() -> str:
    """Hash of all rules and prompts that rows depend on."""
    return content_hash(sorted((data_folder("prompts") / "qaedit").iterdir()))


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "[\n"
    for number, row in enumerate(rows):
        yield json.dumps(row, ensure_ascii=False)
        yield ",\n" if number < len(rows) - 1 else "\n"
    yield "]\n"
