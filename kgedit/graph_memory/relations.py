"""Wordings of relations: their questions, the noun phrase that nests them, and their content words, also if misspelt.

The wordings of a path are the last relation's questions around the phrases of the relations before it. They contain the
subject as a slot only, so that their number grows with paths and not with facts. Misspelt words of a question ("mayer",
"spous") become words that ask for relations if they are in lower case, because a capital letter is a sign of a name,
and in none of the catalogue's wordings.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgedit.graph_memory.other_names import asking_words, capital_words, ordinary_words, sentence_words
from kgedit.llm.embeddings import Embedder, Vectors, stored_vectors
from kgedit.wording.name_index import Spellings, composed, words_of
from kgedit.wording.templates import template_table, template_version

SLOT = "{subject}"
MASK = "X"
"""Replaces the subject in texts that are embedded."""

CONFLICTS = {
    "who": frozenset(("time", "number", "place", "language", "work", "thing")),
    "when": frozenset(("person", "agent", "place", "country", "organization", "team", "language", "number", "work")),
    "where": frozenset(("person", "agent", "number", "time", "language")),
    "how many": frozenset(("person", "agent", "place", "country", "organization", "team", "language", "work", "event")),
}
"""Answer types that each question word excludes. "Whose" and "which" exclude none."""

_QUESTION_WORD = re.compile(
    r"\b(?:(?P<who>who|whom)|(?P<when>when|(?:what|which) (?:year|date|day))|(?P<where>where)"
    r"|(?P<many>how (?:many|much|large|long|high|tall|far|fast|deep|wide|old|often)))\b",
    re.IGNORECASE,
)
_MOST_QUESTIONS = 6
_MOST_PATH_WORDINGS = 4
_NOWHERE = np.array([], dtype=np.int64)
_STOP_WORDS = frozenset(
    word.text
    for word in words_of(
        "a an and are as at be been by did do does for from has have he her his how i in is it its me my of on or she "
        "that the their them they this to was were what when where which who whom whose will with x you your"
    )
)


@dataclass(slots=True)
class RelationWording:
    """Wordings of one relation.

    Attributes:
        identifier: PID, or the id used by the edits.
        name: Label of the property.
        questions: Questions with one SLOT each, those of the catalogue first.
        phrase: Noun phrase with one SLOT for its subject.
        stems: Stems of the content words of all wordings.
        answer: Answer type (kgedit.wording.grammar.ANSWERS); "" if the relation is not in the catalogue.
    """

    identifier: str
    name: str
    questions: list[str] = field(default_factory=list)
    phrase: str = ""
    stems: set[str] = field(default_factory=set)
    answer: str = ""

    def add(self, texts: Iterable[str], *, asking: bool) -> None:
        """Add wordings. At most `_MOST_QUESTIONS` questions are embedded."""
        for text in texts:
            self.stems |= set(content_stems(text.replace(SLOT, " ")))
            if asking and SLOT in text and text not in self.questions and len(self.questions) < _MOST_QUESTIONS:
                self.questions.append(text)


@dataclass(frozen=True, slots=True)
class CatalogueVectors:
    """Vectors of a catalogue's wordings.

    Attributes:
        asked: Vectors of questions, (wordings, dimensions), grouped by property.
        starts: Index of each property's first question, (properties,).
        phrases: Vectors of noun phrases, (properties, dimensions).
    """

    asked: Vectors
    starts: NDArray[np.int64]
    phrases: Vectors

    def asked_like(self, vector: Vectors) -> NDArray[np.float64]:
        """Largest cosine of each property's questions with a window, (properties,)."""
        return np.maximum.reduceat((self.asked @ vector).astype(np.float64), self.starts)


@dataclass(frozen=True, slots=True)
class PathVectors:
    """Vectors of a path's wordings.

    Attributes:
        asked: Vectors of its questions, (wordings, dimensions).
        phrase: Vector of its noun phrase, (dimensions,).
    """

    asked: Vectors
    phrase: Vectors


class CatalogueWordings:
    """Wordings of all relations in a template catalogue, including relations without facts.

    Args:
        embed: Computes vectors of texts.
        catalogue: Folder of templates; None means the shipped ones.
    """

    def __init__(self, embed: Embedder, catalogue: Path | None = None) -> None:
        self._embed = embed
        self._path = catalogue

    @cached_property
    def relations(self) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
        """Rows of TEMPLATES by property: the row for any class of subject first, then rows for particular classes."""
        return _rows_by_property(self._path, template_version(self._path))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Index of each property in `relations`."""
        return {name: place for place, name in enumerate(self.relations)}

    @cached_property
    def vectors(self) -> CatalogueVectors:
        """Vectors of all wordings. Embedding them takes some ten seconds, so that they are kept on disk."""
        first = [rows[0] for rows in self.relations.values()]
        asked = [[row["question"], *row["rephrases"]] for row in first]
        texts = [text for several in asked for text in several] + [row["phrase"] for row in first]
        vectors = stored_vectors(self._embed, [text.replace(SLOT, MASK) for text in texts])
        starts = np.cumsum([0, *(len(several) for several in asked)])
        return CatalogueVectors(vectors[: starts[-1]], starts[:-1], vectors[starts[-1] :])

    @cached_property
    def answers(self) -> list[str]:
        """Answer type of each property (kgedit.wording.grammar.ANSWERS)."""
        return [rows[0]["answer_type"] for rows in self.relations.values()]

    def conflicting(self, asking: str) -> NDArray[np.bool_]:
        """Mask of properties whose answer type a question word excludes, (properties,)."""
        types = CONFLICTS.get(asking, frozenset())
        return np.array([answer in types for answer in self.answers])

    @cached_property
    def postings(self) -> Mapping[str, NDArray[np.int64]]:
        """Indexes of the properties that have a stem in any wording, by stem."""
        return _postings(self._path, template_version(self._path))

    def mask_of(self, identifiers: Iterable[str]) -> NDArray[np.bool_]:
        """Mask of the given properties, (properties,)."""
        mask = np.zeros(len(self.relations), dtype=bool)
        mask[[self.places[name] for name in identifiers if name in self.places]] = True
        return mask


@lru_cache(maxsize=4)
def _rows_by_property(path: Path | None, _version: str) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for row in template_table(path).to_pylist():
        found[row["property"]] = (*found.get(row["property"], ()), row)
    return found


@lru_cache(maxsize=4)
def _postings(path: Path | None, version: str) -> Mapping[str, NDArray[np.int64]]:
    """Computed once per catalogue, because every memory of a process reads the same one and stemming takes long."""
    places: dict[str, list[int]] = {}
    for place, rows in enumerate(_rows_by_property(path, version).values()):
        texts = [text for row in rows for text in _texts_of(row)]
        for found in sorted({each for text in texts for each in content_stems(text.replace(SLOT, " "))}):
            places.setdefault(found, []).append(place)
    return {found: np.array(several) for found, several in places.items()}


def _texts_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["question"], *row["rephrases"], row["label"] or "", row["phrase"], *row["clozes"])


class RelationIndex:
    """Relations by number, and vectors of their paths, computed at first use.

    Args:
        embed: Computes vectors of texts.
        catalogue: Wordings of relations that have templates.
    """

    def __init__(self, embed: Embedder, catalogue: CatalogueWordings) -> None:
        self._embed = embed
        self.catalogue = catalogue
        self.relations: list[RelationWording] = []
        self.identifiers: list[str] = []
        self._numbers: dict[str, int] = {}
        self._with_stem: Counter[str] = Counter()
        self._paths: dict[tuple[int, ...], PathVectors] = {}

    def number(self, identifier: str, name: str) -> int:
        """Number of a relation; an unknown relation is added."""
        number = self._numbers.setdefault(identifier, len(self.relations))
        if number == len(self.relations):
            self.identifiers.append(identifier)
            rows = self.catalogue.relations.get(identifier, ())
            phrase = rows[0]["phrase"] if rows else f"the {name or 'value'} of {SLOT}"
            answer = rows[0]["answer_type"] if rows else ""
            self.relations.append(RelationWording(identifier, name, phrase=phrase, answer=answer))
            asking = [text for row in rows for text in (row["question"], *row["rephrases"])]
            self._learn(number, asking, asking=True)
            self._learn(number, [name, phrase, *(text for row in rows for text in row["clozes"])], asking=False)
        return number

    def identifiers_besides(self, known: Container[str]) -> frozenset[str]:
        """Ids of the relations that are not among the given ones."""
        return frozenset(name for name in self.identifiers if name not in known)

    def add_question(self, number: int, question: str) -> None:
        """Add a question to a relation."""
        relation = self.relations[number]
        if question in relation.questions:
            return
        self._learn(number, [question], asking=True)
        if question in relation.questions:
            for path in [path for path in self._paths if number in path]:
                del self._paths[path]

    def vectors(self, paths: Sequence[tuple[int, ...]]) -> list[PathVectors]:
        """Vectors of the wordings of each path; new ones are embedded in one call."""
        missing = [path for path in dict.fromkeys(paths) if path not in self._paths]
        texts = [list(self._wordings(path)) for path in missing]
        if missing:
            vectors = self._embed([text for several in texts for text in several])
            start = 0
            for path, several in zip(missing, texts, strict=True):
                self._paths[path] = PathVectors(
                    vectors[start : start + len(several) - 1], vectors[start + len(several) - 1]
                )
                start += len(several)
        return [self._paths[path] for path in paths]

    def weight(self, stem: str, *, unknown: float = 0.0) -> float:
        """Weight of a stem (inverse document frequency over relations); `unknown` if no relation has it."""
        there = len(self.catalogue.postings.get(stem, ())) + self._with_stem.get(stem, 0)
        return math.log(1 + self._size / there) if there else unknown

    def shares(self, stems: Sequence[str], paths: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """Weighted share of a window's relation words that occur in each path's wordings, in [0, 1], (paths,)."""
        return self._shares(stems, paths, [self.weight(stem) for stem in stems])

    def covered(self, stems: Sequence[str], paths: Sequence[tuple[int, ...]]) -> list[float]:
        """Like `shares`, over all content words; words of no relation count as rare."""
        rare = math.log(1 + self._size)
        shares: list[float] = self._shares(stems, paths, [self.weight(stem, unknown=rare) for stem in stems]).tolist()
        return shares

    def bridged(self, stems: Sequence[str], repeated: frozenset[str], path: tuple[int, ...]) -> float:
        """Part of `covered` by words of relations before the last that the last lacks, or that occur twice."""
        weights = {stem: self.weight(stem, unknown=math.log(1 + self._size)) for stem in stems}
        before = set().union(*(self.relations[number].stems for number in path[:-1]))
        last = self.relations[path[-1]].stems
        bridging = [stem for stem in stems if stem in before and (stem not in last or stem in repeated)]
        return sum(weights[stem] for stem in bridging) / sum(weights.values()) if bridging else 0.0

    def catalogue_covered(self, stems: Sequence[str]) -> NDArray[np.float64]:
        """Like `covered`, for each relation of the catalogue, (properties,)."""
        shares = np.zeros(len(self.catalogue.relations))
        weights = [self.weight(stem, unknown=math.log(1 + self._size)) for stem in stems]
        for stem, weight in zip(stems, weights, strict=True):
            shares[self.catalogue.postings.get(stem, _NOWHERE)] += weight
        return shares / sum(weights) if weights else shares

    def conflicts(self, asking: str, paths: Sequence[tuple[int, ...]]) -> NDArray[np.bool_]:
        """Mask of paths whose answer type a question word excludes, (paths,)."""
        types = CONFLICTS.get(asking, frozenset())
        return np.array([self.relations[path[-1]].answer in types for path in paths])

    @property
    def _size(self) -> int:
        return len(self.catalogue.relations) + len(self.relations)

    def _shares(
        self, stems: Sequence[str], paths: Sequence[tuple[int, ...]], weights: Sequence[float]
    ) -> NDArray[np.float64]:
        if not any(weights):
            return np.zeros(len(paths))
        by_relation = {
            number: np.array([stem in self.relations[number].stems for stem in stems])
            for number in {number for path in paths for number in path}
        }
        by_path = np.stack([np.logical_or.reduce([by_relation[number] for number in path]) for path in paths])
        shares: NDArray[np.float64] = by_path @ np.array(weights) / sum(weights)
        return shares

    def _learn(self, number: int, texts: Iterable[str], *, asking: bool) -> None:
        relation = self.relations[number]
        before = set(relation.stems)
        relation.add(texts, asking=asking)
        if relation.identifier not in self.catalogue.relations:
            self._with_stem.update(relation.stems - before)

    def _wordings(self, path: tuple[int, ...]) -> Iterator[str]:
        """Questions of a path, then its noun phrase."""
        questions = self.relations[path[-1]].questions or [f"What is the {self.relations[path[-1]].name} of {SLOT}?"]
        nested = MASK
        for number in path[:-1]:
            nested = self.relations[number].phrase.replace(SLOT, nested)
        most = _MOST_QUESTIONS if len(path) == 1 else _MOST_PATH_WORDINGS
        yield from (question.replace(SLOT, nested) for question in questions[:most])
        yield self.relations[path[-1]].phrase.replace(SLOT, nested)


def all_stems(text: str) -> list[str]:
    """Stems of the content words of a text, in order."""
    words = (word.text for word in words_of(composed(text)))
    return [stem(word) for word in words if word not in _STOP_WORDS and len(word) > 1]


def content_stems(text: str) -> list[str]:
    """Stems of the content words of a text, in order and without repetitions."""
    return list(dict.fromkeys(all_stems(text)))


def question_word(text: str) -> str:
    """First question word of a text that restricts the answer type, or ""."""
    found = _QUESTION_WORD.search(text)
    return "" if found is None else {"many": "how many"}.get(found.lastgroup or "", found.lastgroup or "")


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """A word without common English endings: "governed", "governs" and "governing" become "govern"."""
    for ending, instead in (("sses", "ss"), ("ies", "y"), ("ments", ""), ("ment", ""), ("ings", ""), ("ing", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending) + instead
    for ending in ("ers", "ors", "ed", "er", "or", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word


_LOWER_WORD = re.compile(r"\b[a-z]{4,}\b")


def read_misspelt(text: str, known: Container[str]) -> str:
    """A text with misspelt words of relations corrected.

    Args:
        text: The text, without the names of entities.
        known: Stems of words that are not misspelt (`stem`).
    """
    return _LOWER_WORD.sub(lambda found: _corrected(found.group(), known), text)


def _corrected(word: str, known: Container[str]) -> str:
    meant = _meant(word)
    # "mayer" has the stem of "mayor", and says nothing about being known.
    return meant if meant == word or stem(word) not in known or stem(word) == stem(meant) else word


@lru_cache(maxsize=8192)
def _meant(word: str) -> str:
    """The word that a word is a misspelling of, or the word itself; cached, because questions share most words."""
    if any(word in words for words in _not_corrected()):
        return word
    # The first letter is hardly ever wrong, except for being exchanged with the second.
    near = [other for other in _spellings().near(word) if word[0] in (other[0], other[1])]
    return word if len({stem(other) for other in near}) != 1 or word.startswith(near[0]) else near[0]


@cache
def _not_corrected() -> tuple[frozenset[str], ...]:
    return ordinary_words(), sentence_words(), capital_words()


@cache
def _spellings() -> Spellings:
    spellings = Spellings()
    spellings.extend(sorted(asking_words()))
    return spellings
