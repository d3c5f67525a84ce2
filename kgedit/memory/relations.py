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
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from kgedit.llm.embeddings import Embedder, Vectors
from kgedit.prompts.templates import template_table
from kgedit.wikidata.names import composed, words_of

SLOT = "{subject}"
MASK = "X"
"""What stands for the subject in a text that is embedded."""

_MOST_QUESTIONS = 6
_MOST_PATH_WORDINGS = 4
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
    """

    identifier: str
    name: str
    questions: list[str] = field(default_factory=list)
    phrase: str = ""
    stems: set[str] = field(default_factory=set)

    def add(self, texts: Iterable[str], *, asking: bool) -> None:
        """Learn further wordings; of questions only the first few are asked in vectors."""
        for text in texts:
            self.stems |= set(content_stems(text.replace(SLOT, " ")))
            if asking and SLOT in text and text not in self.questions and len(self.questions) < _MOST_QUESTIONS:
                self.questions.append(text)


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
        found: dict[str, tuple[Mapping[str, Any], ...]] = {}
        for row in template_table(self._path).to_pylist():
            found[row["property"]] = (*found.get(row["property"], ()), row)
        return found

    @cached_property
    def questions(self) -> tuple[list[str], Vectors]:
        """Every property, and the vector of its question: what a question may be about."""
        names = list(self.relations)
        return names, self._embed([self.relations[name][0]["question"].replace(SLOT, MASK) for name in names])


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
        self._numbers: dict[str, int] = {}
        self._with_stem: Counter[str] = Counter()
        self._paths: dict[tuple[int, ...], Vectors] = {}

    def number(self, identifier: str, name: str) -> int:
        """The number of a relation, new where it is."""
        number = self._numbers.setdefault(identifier, len(self.relations))
        if number == len(self.relations):
            rows = self.catalogue.relations.get(identifier, ())
            phrase = rows[0]["phrase"] if rows else f"the {name or 'value'} of {SLOT}"
            self.relations.append(RelationWording(identifier, name, phrase=phrase))
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

    def vectors(self, paths: Sequence[tuple[int, ...]]) -> list[Vectors]:
        """For each path the vectors of its wordings, (wordings, dimensions); all that are new in one call."""
        missing = [path for path in dict.fromkeys(paths) if path not in self._paths]
        texts = [list(self._wordings(path)) for path in missing]
        if missing:
            vectors = self._embed([text for several in texts for text in several])
            start = 0
            for path, several in zip(missing, texts, strict=True):
                self._paths[path] = vectors[start : start + len(several)]
                start += len(several)
        return [self._paths[path] for path in paths]

    def weight(self, stem: str) -> float:
        """How telling a stem is: 0 for one in no relation's wording, more for one in few of them."""
        there = self._with_stem.get(stem, 0)
        return math.log(1 + len(self.relations) / there) if there else 0.0

    def share(self, stems: Sequence[str], path: tuple[int, ...]) -> float:
        """Share of a question's telling words that are in a path's wordings, by weight; 0 to 1."""
        weights = {stem: self.weight(stem) for stem in stems}
        whole = sum(weights.values())
        if not whole:
            return 0.0
        told = set().union(*(self.relations[number].stems for number in path))
        return sum(weight for stem, weight in weights.items() if stem in told) / whole

    def _learn(self, number: int, texts: Iterable[str], *, asking: bool) -> None:
        relation = self.relations[number]
        before = set(relation.stems)
        relation.add(texts, asking=asking)
        self._with_stem.update(relation.stems - before)

    def _wordings(self, path: tuple[int, ...]) -> Iterator[str]:
        questions = self.relations[path[-1]].questions or [f"What is the {self.relations[path[-1]].name} of {SLOT}?"]
        nested = MASK
        for number in path[:-1]:
            nested = self.relations[number].phrase.replace(SLOT, nested)
        most = _MOST_QUESTIONS if len(path) == 1 else _MOST_PATH_WORDINGS
        yield from (question.replace(SLOT, phrase) for question, phrase in islice(product(questions, [nested]), most))


def content_stems(text: str) -> list[str]:
    """Stems of the content words of a text, in order, repeated ones once."""
    words = (word.text for word in words_of(composed(text)))
    return list(dict.fromkeys(stem(word) for word in words if word not in _STOP_WORDS and len(word) > 1))


def stem(word: str) -> str:
    """A word without its commonest English endings: "governed", "governs" and "governing" meet in "govern"."""
    for ending, instead in (("sses", "ss"), ("ies", "y"), ("ments", ""), ("ment", ""), ("ings", ""), ("ing", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending) + instead
    for ending in ("ers", "ors", "ed", "er", "or", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word


def best_cosine(windows: Vectors, wordings: Vectors) -> float:
    """The greatest cosine between any of the windows of a question and any wording of a path."""
    return float(np.max(windows @ wordings.T))


_SENTENCE = re.compile(r"[^.!?]*[.!?]+[\"')\]]*\s*|[^.!?]+$")
_CLAUSE = re.compile(r"[^,;:\u2013\u2014-]*[,;:\u2013\u2014-]+\s*|[^,;:\u2013\u2014-]+$")


def windows_of(text: str, start: int, end: int) -> list[str]:
    """What is compared with wordings: a question's sentence with the name, all of it, the clause; the name as MASK.

    Args:
        text: Composed.
        start: Of the name.
        end: Of the name.
    """
    masked, at = f"{text[:start]}{MASK}{text[end:]}", start
    sentence = _around(_SENTENCE, masked, at)
    found = [sentence, masked.strip(), _around(_CLAUSE, sentence, sentence.find(MASK))]
    return list(dict.fromkeys(window for window in found if window))


def _around(pattern: re.Pattern[str], text: str, at: int) -> str:
    for found in pattern.finditer(text):
        if found.start() <= at < found.end():
            return found.group().strip()
    return text.strip()
