"""How relations are worded: the questions that ask for them, the phrase that nests them, and the words that tell them.

A path of relations has wordings of its own: the last relation's questions around the phrases of those before it. They
hold no entity but the slot of the subject, so that there are as many as paths and not as many as facts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgedit.llm.embeddings import Embedder, Vectors
from kgedit.names.index import composed, words_of
from kgedit.wording.templates import template_table, template_version

SLOT = "{subject}"
MASK = "X"
"""What stands for the subject in a text that is embedded."""

CONFLICTS = {
    "who": frozenset(("time", "number", "place", "language", "work", "thing")),
    "when": frozenset(("person", "agent", "place", "country", "organization", "team", "language", "number", "work")),
    "where": frozenset(("person", "agent", "number", "time", "language")),
    "how many": frozenset(("person", "agent", "place", "country", "organization", "team", "language", "work", "event")),
}
"""Types of answers that a question word does not ask for. "Whose" and "which" may ask for anything."""

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
    """One relation.

    Attributes:
        identifier: PID, or whatever the edits give.
        name: Label of the property.
        questions: With one SLOT each, those of a catalogue first.
        phrase: Noun phrase with one SLOT for its value.
        stems: Of the content words of all of these.
        answer: Its type (kgedit.wording.grammar.ANSWERS); "" where no catalogue says.
    """

    identifier: str
    name: str
    questions: list[str] = field(default_factory=list)
    phrase: str = ""
    stems: set[str] = field(default_factory=set)
    answer: str = ""

    def add(self, texts: Iterable[str], *, asking: bool) -> None:
        """Learn further wordings; of questions only the first few are asked in vectors."""
        for text in texts:
            self.stems |= set(content_stems(text.replace(SLOT, " ")))
            if asking and SLOT in text and text not in self.questions and len(self.questions) < _MOST_QUESTIONS:
                self.questions.append(text)


@dataclass(frozen=True, slots=True)
class CatalogueVectors:
    """Vectors of a catalogue's wordings.

    Attributes:
        asked: (wordings, dimensions), those of one property together.
        starts: (properties,), the first wording of each.
        phrases: (properties, dimensions).
    """

    asked: Vectors
    starts: NDArray[np.int64]
    phrases: Vectors

    def asked_like(self, vector: Vectors) -> NDArray[np.float64]:
        """The best cosine of each property's questions with a window, (properties,)."""
        return np.maximum.reduceat((self.asked @ vector).astype(np.float64), self.starts)


@dataclass(frozen=True, slots=True)
class PathVectors:
    """Vectors of a path's wordings.

    Attributes:
        asked: (wordings, dimensions), of its questions.
        phrase: (dimensions,), of its noun phrase.
    """

    asked: Vectors
    phrase: Vectors


class CatalogueWordings:
    """What a catalogue of templates says of relations, whether or not any fact has them.

    Args:
        embed: Computes the vectors of texts.
        catalogue: The templates; None for those that come with kgedit.
    """

    def __init__(self, embed: Embedder, catalogue: Path | None = None) -> None:
        self._embed = embed
        self._path = catalogue

    @cached_property
    def relations(self) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
        """Rows of TEMPLATES by property: one for subjects of any class first, then those of classes of their own."""
        return _rows_by_property(self._path, template_version(self._path))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each property among `relations`."""
        return {name: place for place, name in enumerate(self.relations)}

    @cached_property
    def vectors(self) -> CatalogueVectors:
        """What a question may be about, as vectors; computed once, by some seconds of the embedder."""
        first = [rows[0] for rows in self.relations.values()]
        asked = [[row["question"], *row["rephrases"]] for row in first]
        texts = [text for several in asked for text in several] + [row["phrase"] for row in first]
        vectors = self._embed([text.replace(SLOT, MASK) for text in texts])
        starts = np.cumsum([0, *(len(several) for several in asked)])
        return CatalogueVectors(vectors[: starts[-1]], starts[:-1], vectors[starts[-1] :])

    @cached_property
    def answers(self) -> list[str]:
        """The type of each property's answer (kgedit.wording.grammar.ANSWERS)."""
        return [rows[0]["answer_type"] for rows in self.relations.values()]

    def conflicting(self, asking: str) -> NDArray[np.bool_]:
        """Which properties have another type of answer than a question word asks for, (properties,)."""
        types = CONFLICTS.get(asking, frozenset())
        return np.array([answer in types for answer in self.answers])

    @cached_property
    def postings(self) -> Mapping[str, NDArray[np.int64]]:
        """The places of the properties that have a stem in any wording."""
        places: dict[str, list[int]] = {}
        for place, rows in enumerate(self.relations.values()):
            texts = [text for row in rows for text in _texts_of(row)]
            for found in sorted({each for text in texts for each in content_stems(text.replace(SLOT, " "))}):
                places.setdefault(found, []).append(place)
        return {found: np.array(several) for found, several in places.items()}

    def mask_of(self, identifiers: Iterable[str]) -> NDArray[np.bool_]:
        """Which of the catalogue's properties are among some, (properties,)."""
        mask = np.zeros(len(self.relations), dtype=bool)
        mask[[self.places[name] for name in identifiers if name in self.places]] = True
        return mask


@lru_cache(maxsize=4)
def _rows_by_property(path: Path | None, _version: str) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for row in template_table(path).to_pylist():
        found[row["property"]] = (*found.get(row["property"], ()), row)
    return found


def _texts_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["question"], *row["rephrases"], row["label"] or "", row["phrase"], *row["clozes"])


class RelationIndex:
    """Relations by number, and the vectors of their paths, computed when they are first looked at.

    Args:
        embed: Computes the vectors of texts.
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
        """The number of a relation, new where it is."""
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

    def add_question(self, number: int, question: str) -> None:
        """Learn one more way to ask for a relation."""
        relation = self.relations[number]
        if question in relation.questions:
            return
        self._learn(number, [question], asking=True)
        if question in relation.questions:
            for path in [path for path in self._paths if number in path]:
                del self._paths[path]

    def vectors(self, paths: Sequence[tuple[int, ...]]) -> list[PathVectors]:
        """For each path the vectors of its wordings; all that are new in one call."""
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
        """How telling a stem is: `unknown` for one in no relation's wording, more for one in few of them."""
        there = len(self.catalogue.postings.get(stem, ())) + self._with_stem.get(stem, 0)
        return math.log(1 + self._size / there) if there else unknown

    def shares(self, stems: Sequence[str], paths: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """For each path the share of a window's telling words that are in its wordings, by weight; 0 to 1, (paths,)."""
        return self._shares(stems, paths, [self.weight(stem) for stem in stems])

    def covered(self, stems: Sequence[str], paths: Sequence[tuple[int, ...]]) -> list[float]:
        """The same of all content words, those of no relation counted as rare ones."""
        rare = math.log(1 + self._size)
        shares: list[float] = self._shares(stems, paths, [self.weight(stem, unknown=rare) for stem in stems]).tolist()
        return shares

    def bridged(self, stems: Sequence[str], repeated: frozenset[str], path: tuple[int, ...]) -> float:
        """The part of `covered` that the relations before the last have and the last lacks, or that is there twice."""
        weights = {stem: self.weight(stem, unknown=math.log(1 + self._size)) for stem in stems}
        before = set().union(*(self.relations[number].stems for number in path[:-1]))
        last = self.relations[path[-1]].stems
        told = [stem for stem in stems if stem in before and (stem not in last or stem in repeated)]
        return sum(weights[stem] for stem in told) / sum(weights.values()) if told else 0.0

    def catalogue_covered(self, stems: Sequence[str]) -> NDArray[np.float64]:
        """The same as `covered` of each relation of the catalogue, (properties,)."""
        shares = np.zeros(len(self.catalogue.relations))
        weights = [self.weight(stem, unknown=math.log(1 + self._size)) for stem in stems]
        for stem, weight in zip(stems, weights, strict=True):
            shares[self.catalogue.postings.get(stem, _NOWHERE)] += weight
        return shares / sum(weights) if weights else shares

    def conflicts(self, asking: str, paths: Sequence[tuple[int, ...]]) -> NDArray[np.bool_]:
        """Which paths end in another type of answer than a question word asks for, (paths,)."""
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
        said = {
            number: np.array([stem in self.relations[number].stems for stem in stems])
            for number in {number for path in paths for number in path}
        }
        told = np.stack([np.logical_or.reduce([said[number] for number in path]) for path in paths])
        shares: NDArray[np.float64] = told @ np.array(weights) / sum(weights)
        return shares

    def _learn(self, number: int, texts: Iterable[str], *, asking: bool) -> None:
        relation = self.relations[number]
        before = set(relation.stems)
        relation.add(texts, asking=asking)
        if relation.identifier not in self.catalogue.relations:
            self._with_stem.update(relation.stems - before)

    def _wordings(self, path: tuple[int, ...]) -> Iterator[str]:
        """Its questions, then its noun phrase."""
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
    """The same, repeated ones once."""
    return list(dict.fromkeys(all_stems(text)))


def question_word(text: str) -> str:
    """The first question word of a text that says what type of answer is asked for, or ""."""
    found = _QUESTION_WORD.search(text)
    return "" if found is None else {"many": "how many"}.get(found.lastgroup or "", found.lastgroup or "")


def stem(word: str) -> str:
    """A word without its commonest English endings: "governed", "governs" and "governing" meet in "govern"."""
    for ending, instead in (("sses", "ss"), ("ies", "y"), ("ments", ""), ("ment", ""), ("ings", ""), ("ing", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending) + instead
    for ending in ("ers", "ors", "ed", "er", "or", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word
