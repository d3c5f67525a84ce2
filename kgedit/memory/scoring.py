"""How well paths of relations fit a question: similarity and shared words in the window of it that speaks for them.

A window is a part of the question, the name in it masked (`windows_of`). Talk around a question is in other windows
than the question itself, so that words count in the window that is most like the path, not in the whole text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgedit.llm.embeddings import Vectors
from kgedit.memory.gate import Evidence
from kgedit.memory.relations import RelationIndex, all_stems, question_word

RelationPath = tuple[int, ...]
Scores = NDArray[np.float64]
_CONFLICT = 0.1


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a question with its name masked.

    Attributes:
        vector: (dimensions,), of length 1.
        stems: Of its content words, without the name.
        repeated: Those of the stems that are in it more than once.
        asking: Its question word, one of kgedit.memory.relations.CONFLICTS, or "".
    """

    vector: Vectors
    stems: tuple[str, ...]
    repeated: frozenset[str]
    asking: str

    @classmethod
    def of(cls, text: str, vector: Vectors) -> Window:
        """A window of a masked text; the mask is no content word."""
        counts = Counter(all_stems(text))
        repeated = frozenset(stem for stem, count in counts.items() if count > 1)
        return cls(vector, tuple(counts), repeated, question_word(text))


@dataclass(frozen=True, slots=True)
class PathScores:
    """Scores of paths from one name.

    Attributes:
        paths: As given.
        totals: (paths,), in their best windows.
        similarities: (windows, paths), cosines.
        words: (windows, paths), shares of the telling words.
        windows: (paths,), the index of the best window.
    """

    paths: Sequence[RelationPath]
    totals: Scores
    similarities: Scores
    words: Scores
    windows: NDArray[np.int64]


def score_paths(
    paths: Sequence[RelationPath], windows: Sequence[Window], relations: RelationIndex, *, word_weight: float
) -> PathScores:
    """Score paths from one name by the window that is most like each."""
    wordings = relations.vectors(paths)
    starts = np.cumsum([0, *(len(each) for each in wordings[:-1])])
    every = np.stack([window.vector for window in windows]) @ np.concatenate(wordings).T
    similarities = np.maximum.reduceat(every.astype(np.float64), starts, axis=1)
    words = np.stack([relations.shares(window.stems, paths) for window in windows])
    conflicts = np.stack([relations.conflicts(window.asking, paths) for window in windows])
    totals = similarities + word_weight * words - _CONFLICT * conflicts
    best = totals.argmax(axis=0)
    return PathScores(paths, totals[best, np.arange(len(paths))], similarities, words, best)


def evidence_for(scores: PathScores, best: int, windows: Sequence[Window], relations: RelationIndex) -> Evidence:
    """What speaks for one path of those that were scored."""
    path, index = scores.paths[best], int(scores.windows[best])
    window = windows[index]
    similarity, words = float(scores.similarities[index, best]), float(scores.words[index, best])
    told = {relations.relations[number].identifier for each in scores.paths for number in each}
    held = {relations.relations[each[0]].identifier for each in scores.paths}
    catalogue = relations.catalogue
    cosines = (catalogue.questions @ window.vector).astype(np.float64)
    possible = ~catalogue.conflicting(window.asking)
    rivals, lacking = ~catalogue.mask_of(told) & possible, catalogue.mask_of(told - held) & possible
    [covered] = relations.covered(window.stems, [path])
    return Evidence(
        similarity=similarity,
        words=words,
        covered=covered,
        margin=similarity - _most(cosines[rivals]),
        words_margin=covered - _most(relations.catalogue_covered(window.stems)[rivals]),
        end_margin=similarity - _most(cosines[lacking]),
        rank=math.log1p(int((cosines[rivals] > similarity).sum())),
        bridge=relations.bridged(window.stems, window.repeated, path),
        conflict=float(relations.conflicts(window.asking, [path])[0]),
        hops=len(path),
    )


def _most(values: Scores) -> float:
    return float(values.max()) if values.size else 0.0
