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
from itertools import islice, product
from pathlib import Path

import numpy as np

from kgedit.llm.embeddings import Embedder, Vectors
from kgedit.memory.names import composed, words_of
from kgedit.prompts.templates import template_table

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


class RelationIndex:
    """Relations by number, and the vectors of their paths, computed when they are first looked at.

    Args:
        embed: Computes the vectors of texts.
        catalogue: Templates for relations that have one; None for those that come with kgedit.
    """

    def __init__(self, embed: Embedder, *, catalogue: Path | None = None) -> None:
        self._embed = embed
        self._catalogue = _read_catalogue(catalogue)
        self.relations: list[RelationWording] = []
        self._numbers: dict[str, int] = {}
        self._with_stem: Counter[str] = Counter()
        self._paths: dict[tuple[int, ...], Vectors] = {}
        self._rest: tuple[list[str], Vectors] | None = None

    def number(self, identifier: str, name: str) -> int:
        """The number of a relation, new where it is."""
        number = self._numbers.setdefault(identifier, len(self.relations))
        if number == len(self.relations):
            relation = RelationWording(identifier, name)
            self.relations.append(relation)
            self._learn(number, self._catalogue.get(identifier, {}).get("questions", ()), asking=True)
            self._learn(number, [name, *self._catalogue.get(identifier, {}).get("others", ())], asking=False)
            phrases = self._catalogue.get(identifier, {}).get("phrases", ())
            relation.phrase = phrases[0] if phrases else f"the {name or 'value'} of {SLOT}"
            self._rest = None
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

    def others(self) -> tuple[list[str], Vectors]:
        """Relations of the catalogue, and the vectors of a question each: what else a question may be about."""
        if self._rest is None:
            names = sorted(self._catalogue, key=lambda name: int(name[1:]))
            questions = [self._catalogue[name]["questions"][0].replace(SLOT, MASK) for name in names]
            self._rest = names, self._embed(questions)
        return self._rest

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


def _read_catalogue(catalogue: Path | None) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Wordings by property: questions, phrases, and others."""
    rows = template_table(catalogue).to_pylist()
    return {
        row["property"]: {
            "questions": [row["question"], row["rephrase"]],
            "phrases": [row["phrase"]],
            "others": [row["cloze"]],
        }
        for row in rows
    }


def best_cosine(windows: Vectors, wordings: Vectors) -> float:
    """The greatest cosine between any of the windows of a question and any wording of a path."""
    return float(np.max(windows @ wordings.T))


_SENTENCE = re.compile(r"[^.!?]*[.!?]+[\"')\]]*\s*|[^.!?]+$")
_CLAUSE = re.compile(r"[^,;:\u2013\u2014-]*[,;:\u2013\u2014-]+\s*|[^,;:\u2013\u2014-]+$")


def windows_of(text: str, start: int, end: int) -> list[str]:
    """What of a question is compared with wordings: its sentence with the subject, and all of it, the name as MASK.

    Args:
        text: Composed.
        start: Of the name.
        end: Of the name.
    """
    masked, at = f"{text[:start]}{MASK}{text[end:]}", start
    found = [_around(_SENTENCE, masked, at), masked.strip()]
    return list(dict.fromkeys(window for window in found if window))


def _around(pattern: re.Pattern[str], text: str, at: int) -> str:
    for found in pattern.finditer(text):
        if found.start() <= at < found.end():
            return found.group().strip()
    return text.strip()
