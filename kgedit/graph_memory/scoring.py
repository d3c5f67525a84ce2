"""How well paths of relations fit a question: similarity and shared words in the window of the question that fits best.

A window is a part of the question with the name masked. Questions come with other talk ("Listen, I lost a bet, so who
heads Norway? Do not laugh.") that must not count. Windows are the whole text, the sentence with the name, its clause,
and that clause with the one before it. Words count in the window that is most similar to the path, not in the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgedit.graph_memory.gate import Evidence
from kgedit.graph_memory.relations import MASK, RelationIndex, all_stems, question_word
from kgedit.llm.embeddings import Vectors

OTHER_MASK = "Y"
"""Replaces names other than the subject's in texts that are read by the matcher."""

_SENTENCE = re.compile(r"[^.!?]*[.!?]+[\"')\]]*\s*|[^.!?]+$")
_BETWEEN_CLAUSES = re.compile(r"[,;:\u2013\u2014]+\s*|\s-+\s+")
_BARE_GENITIVE = re.compile(rf"\b{MASK}s\b")
"""A genitive without an apostrophe: "norways king"."""
_GOES_ON = re.compile(r"\.(?= [a-z])")


def windows_of(text: str, start: int, end: int, others: Sequence[tuple[int, int]] = ()) -> list[str]:
    """Windows around a name: its sentence, the whole text, its clause, and that clause with the one before it.

    The last one is for questions that begin before a comma: "In politics, which group does X stand with?".

    Args:
        text: The question, in composed Unicode form.
        start: Index of the name's first character.
        end: Index after the name's last character.
        others: Half-open ranges of other names, which become OTHER_MASK; those that overlap the name stay.
    """
    for first, last in _widest(others):
        if first >= end:
            text = f"{text[:first]}{OTHER_MASK}{text[last:]}"
        elif last <= start:
            text = f"{text[:first]}{OTHER_MASK}{text[last:]}"
            shift = len(OTHER_MASK) - (last - first)
            start, end = start + shift, end + shift
    if "." in text[start:end] and _GOES_ON.match(text, end):
        # The dot of "Celtic F.C." ends no sentence here.
        text = f"{text[:end]}{text[end + 1 :]}"
    masked = _BARE_GENITIVE.sub(rf"{MASK}'s", f"{text[:start]}{MASK}{text[end:]}".replace("_", " "))
    sentence_start, sentence = _sentence_at(masked, start)
    at = start - sentence_start
    ends = [found.end() for found in _BETWEEN_CLAUSES.finditer(sentence)]
    before = [0, *(place for place in ends if place <= at)]
    after = min((place for place in ends if place > at), default=len(sentence))
    clauses = [sentence[place:after] for place in before[:-3:-1]]
    return list(dict.fromkeys(window for each in (sentence, masked, *clauses) if (window := each.strip())))


def _widest(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that are within no other one, each once, last first."""
    found = [one for one in set(ranges) if not any(a <= one[0] and one[1] <= b and (a, b) != one for a, b in ranges)]
    return sorted(found, reverse=True)


def _sentence_at(text: str, place: int) -> tuple[int, str]:
    """Start of the sentence that contains an index, and the sentence."""
    for found in _SENTENCE.finditer(text):
        if found.start() <= place < found.end():
            return found.start(), found.group()
    return 0, text


RelationPath = tuple[int, ...]
Scores = NDArray[np.float64]
_CONFLICT = 0.1
"""Deducted from the cosine of a path whose answer the question word excludes."""

_SHARPNESS = 20.0
"""Of the smooth maximum: values up to about 1 / 20 below the largest count as well."""


@dataclass(frozen=True, slots=True)
class QuestionWindow:
    """A part of a question with its name masked.

    Attributes:
        vector: Vector of length 1, (dimensions,).
        stems: Stems of its content words, without the name.
        repeated: Stems that occur more than once.
        asking: Question word, one of kgedit.graph_memory.relations.CONFLICTS, or "".
    """

    vector: Vectors
    stems: tuple[str, ...]
    repeated: frozenset[str]
    asking: str

    @classmethod
    def of(cls, text: str, vector: Vectors) -> QuestionWindow:
        """Window of a masked text; the mask does not count as a content word."""
        counts = Counter(all_stems(text))
        repeated = frozenset(stem for stem, count in counts.items() if count > 1)
        return cls(vector, tuple(counts), repeated, question_word(text))


@dataclass(frozen=True, slots=True)
class PathScores:
    """Scores of paths from one name.

    Attributes:
        paths: Paths, in the order given.
        totals: Score of each path in its best window, (paths,).
        similarities: Cosines, (windows, paths).
        words: Weighted shares of relation words, (windows, paths).
        windows: Index of the best window of each path, (paths,).
    """

    paths: Sequence[RelationPath]
    totals: Scores
    similarities: Scores
    words: Scores
    windows: NDArray[np.int64]


def score_paths(
    paths: Sequence[RelationPath], windows: Sequence[QuestionWindow], relations: RelationIndex, *, word_weight: float
) -> PathScores:
    """Score paths from one name, each in the window that fits it best."""
    wordings = relations.vectors(paths)
    starts = np.cumsum([0, *(len(each.asked) for each in wordings[:-1])])
    every = np.stack([window.vector for window in windows]) @ np.concatenate([each.asked for each in wordings]).T
    similarities = np.maximum.reduceat(every.astype(np.float64), starts, axis=1)
    words = np.stack([relations.shares(window.stems, paths) for window in windows])
    conflicts = np.stack([relations.conflicts(window.asking, paths) for window in windows])
    totals = similarities + word_weight * words - _CONFLICT * conflicts
    best = totals.argmax(axis=0)
    return PathScores(paths, totals[best, np.arange(len(paths))], similarities, words, best)


def evidence_for(
    scores: PathScores, best: int, windows: Sequence[QuestionWindow], relations: RelationIndex
) -> Evidence:
    """Compute the features of one of the scored paths (kgedit.graph_memory.gate.Evidence)."""
    path, index = scores.paths[best], int(scores.windows[best])
    window = windows[index]
    others = _OtherRelations.of(window, path, scores.paths, relations)
    similarity, words = float(scores.similarities[index, best]), float(scores.words[index, best])
    [covered] = relations.covered(window.stems, [path])
    whole, first, last = relations.vectors([path, path[:1], path[-1:]])
    phrase, first_phrase = (float(each.phrase @ window.vector) for each in (whole, first))
    first_asked, last_asked = (float((each.asked @ window.vector).max()) for each in (first, last))
    several = len(path) > 1
    return Evidence(
        # How well the path fits the window.
        similarity=similarity,
        words=words,
        covered=covered,
        bridge=relations.bridged(window.stems, window.repeated, path),
        conflict=float(relations.conflicts(window.asking, [path])[0]),
        phrase=phrase,
        hops=len(path),
        # How much better it fits than relations that the question could ask for instead.
        margin=similarity - _most(others.asked[others.rivals]),
        rank=math.log1p(int((others.asked[others.rivals] > similarity).sum())),
        words_margin=covered - _most(others.covered[others.rivals]),
        end_margin=similarity - _most(others.asked[others.ends]),
        soft_margin=similarity - _softly_most(others.asked[others.lacked]),
        phrase_margin=phrase - _most(others.phrases[others.rivals]),
        phrase_rank=math.log1p(int((others.phrases[others.lacked] > phrase).sum())),
        soft_phrase_margin=phrase - _softly_most(others.phrases[others.lacked]),
        # How much better it fits than its first and last relation, and these than relations outside the path. For one
        # relation the first two are 0 except for rounding, which a fit would treat as evidence.
        over_first=similarity - first_asked if several else 0.0,
        over_last=similarity - last_asked if several else 0.0,
        first_margin=first_phrase - _most(others.phrases[others.outside]),
        last_margin=last_asked - _most(others.asked[others.outside]),
    )


@dataclass(frozen=True, slots=True)
class _OtherRelations:
    """How well a window fits each relation of the catalogue, and which of them it could mean instead of a path.

    All arrays are (relations,). Rivals, lacked relations and ends are without those whose answer the question word
    excludes.

    Attributes:
        asked: Cosine with the relation's most similar question.
        phrases: Cosine with the relation's noun phrase.
        covered: Weighted share of the window's content words that occur in the relation's wordings.
        rivals: Mask of relations that are on no path from the name.
        lacked: Mask of relations that no path begins with.
        ends: Mask of relations that are on a path although none begins with them.
        outside: Mask of relations that are not on the path in question.
    """

    asked: Scores
    phrases: Scores
    covered: Scores
    rivals: NDArray[np.bool_]
    lacked: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    outside: NDArray[np.bool_]

    @classmethod
    def of(
        cls, window: QuestionWindow, path: RelationPath, paths: Sequence[RelationPath], relations: RelationIndex
    ) -> _OtherRelations:
        """Compare a window with the catalogue.

        Args:
            window: The window.
            path: The path in question.
            paths: All paths from the name.
            relations: Relations by number, and the catalogue.
        """
        catalogue = relations.catalogue
        reached, first, own = (
            catalogue.mask_of(relations.relations[number].identifier for number in numbers)
            for numbers in ({number for each in paths for number in each}, {each[0] for each in paths}, path)
        )
        possible = ~catalogue.conflicting(window.asking)
        return cls(
            asked=catalogue.vectors.asked_like(window.vector),
            phrases=(catalogue.vectors.phrases @ window.vector).astype(np.float64),
            covered=relations.catalogue_covered(window.stems),
            rivals=~reached & possible,
            lacked=~first & possible,
            ends=reached & ~first & possible,
            outside=~own,
        )


def _softly_most(values: Scores) -> float:
    """Smooth maximum, raised by values near it: a window similar to every relation is evidence for none."""
    return float(np.log(np.exp(_SHARPNESS * values).sum()) / _SHARPNESS) if values.size else 0.0


def _most(values: Scores) -> float:
    return float(values.max()) if values.size else 0.0
