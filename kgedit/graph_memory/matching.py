"""The relation matcher: which relation a text asks for, by a linear model trained on paraphrases.

A text with its subject masked (kgedit.graph_memory.windows) has two readings: the relation that is asked for, and the
relation that leads to its subject ("the spouse of the prime minister of X"), if any. The features are the text's vector
and its words and letters, so that a misspelt word still counts. benchmarks/matcher.py trains it on
prompts/memory/paraphrases.yaml, for one embedder; a memory with another embedder works without it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kgedit.errors import KgeditError
from kgedit.graph_memory.unexplained import Unexplained, Vocabulary, read_vocabulary
from kgedit.llm.embeddings import Vectors
from kgedit.resources import data_folder
from kgedit.wording.name_index import without_accents

OTHER, NOTHING, DIRECT = "other", "nothing", "direct"
"""Classes besides properties: a relation without paraphrases, no relation; and no relation before the asked one."""
BACK = "~"
"""Prefix of classes that ask for the subject, given a value: "which country does Y lead?" is ~P6."""

LEADING = ("P6", "P169", "P286", "P488", "P1037")
"""Relations that "who runs X?" may ask for; a subject has one or two of them."""
_ALIKE = (LEADING, ("P39", "P106"))
"""Relations that one word may ask for: "who runs X?", "what is X's job?"."""
_INSTEAD = {"P54": "P108"}
"""Relations that answer for one that the subject lacks: the employer of a player is the club."""
_IN_OWN_WORDS = {
    "P31": re.compile(
        r"\b(?:kinds?|sorts?|types?|class(?:es)?|category|categories|things?|instance|example of|(?:city|country) or"
        r"|art|ding|sache)\b",
        re.IGNORECASE,
    )
}
"""Words of relations that are asked for by such words only: everything is an instance of something, so that the class
of a subject is near to "X, a Green, or am I wrong?"."""
_ALIKE_TO = {name: group for group in _ALIKE for name in group}
_LIKELY = 0.1
"""Probability from which on a relation of _ALIKE counts in full for those that the subject lacks."""

BUCKETS = 8192
_GRAM = 4
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class TextReading:
    """What one text asks for, as logarithms of probabilities.

    Attributes:
        asked: By class of the asked relation.
        before: By class of the relation before it.
        matcher: Matcher that read the text; it has the names of the classes.
        text: The text.
    """

    asked: Sequence[float]
    before: Sequence[float]
    matcher: RelationMatcher
    text: str = ""

    def unexplained(self, path: Sequence[str], *, qualified: bool) -> Unexplained:
        """Words of the text that belong to none of the relations of a path, nor to the ways of asking.

        `qualified`: see kgedit.graph_memory.unexplained.
        """
        names = {name.removeprefix(BACK) for name in path}
        own = names | {_INSTEAD.get(name, name) for name in names}
        return self.matcher.vocabulary.unexplained(self.text, own, qualified=qualified)

    def score(self, path: Sequence[str], held: Container[str] = ()) -> float | None:
        """Score of a path of one or two relations; None if the matcher does not know one of them, or if the text has
        none of the words that the last one is always asked with.

        Args:
            path: Ids of the relations.
            held: Relations that the path's last subject has. Those of _ALIKE that it lacks count for the one that it
                has, if that one is likely itself: "who runs Hamburg?" asks for its mayor.
        """
        first, last = (DIRECT if len(path) == 1 else path[0]), path[-1]
        asked, before = self.matcher.asked.get(last), self.matcher.before.get(first)
        if asked is None or before is None or len(path) > 2:
            return None
        if (words := _IN_OWN_WORDS.get(last)) is not None and words.search(self.text) is None:
            return None
        score = self.asked[asked]
        if alike := _ALIKE_TO.get(last):
            own = float(np.exp(score))
            lacking = [name for name in alike if name not in held and name in self.matcher.asked]
            others = sum(self.asks(name) for name in lacking if name != last)
            # Squared: "mayor" hardly asks for a club's coach, and must not count for one that has no mayor.
            score = float(np.log(min(1.0, own + min(1.0, own / _LIKELY) ** 2 * others)))
        lacked = _INSTEAD.get(last)
        if lacked and lacked not in held:
            score = float(np.logaddexp(score, self.asked[self.matcher.asked[lacked]]))
        return score + self.before[before]

    def asks(self, name: str) -> float:
        """Probability that the question asks for a class of relations."""
        return float(np.exp(self.asked[self.matcher.asked[name]]))


class RelationMatcher:
    """A linear model of two softmax functions over the same features.

    Args:
        asked: Classes of the asked relation.
        before: Classes of the relation before it.
        dense: Weights of the vector, (dimensions, asked + before).
        sparse: Weights of words and letters, (BUCKETS, asked + before).
        intercept: Intercepts, (asked + before,).
        vocabulary: Words by relation.
    """

    def __init__(
        self,
        asked: Sequence[str],
        before: Sequence[str],
        dense: Vectors,
        sparse: Vectors,
        intercept: Vectors,
        vocabulary: Vocabulary,
    ) -> None:
        self.vocabulary = vocabulary
        self.asked = {name: place for place, name in enumerate(asked)}
        self.before = {name: place for place, name in enumerate(before)}
        self._dense, self._sparse, self._intercept = dense, sparse, intercept

    def read(self, text: str, vector: Vectors) -> TextReading:
        """Read a masked text."""
        places, weights = text_features(text)
        scores = vector @ self._dense + weights @ self._sparse[places] + self._intercept
        split = len(self.asked)
        return TextReading(_log_softmax(scores[:split]), _log_softmax(scores[split:]), self, text)


def text_features(text: str) -> tuple[NDArray[np.int64], Vectors]:
    """Buckets of the words, pairs of words and runs of letters of a text, and their weights."""
    words = [word.lower() for word in _WORD.findall(without_accents(text))]
    pairs = [_bucket(f"{one} {other}") for one, other in zip(["^", *words], [*words, "$"], strict=True)]
    grams = [place for word in words for place in _gram_buckets(word)]
    places: list[int] = []
    weights: list[float] = []
    for group in ([_bucket(word) for word in words], pairs, grams):
        places += group
        weights += [1 / max(1, len(group)) ** 0.5] * len(group)
    return np.array(places, dtype=np.int64), np.array(weights, dtype=np.float32)


def _bucket(text: str) -> int:
    return zlib.crc32(text.encode()) % BUCKETS


@lru_cache(maxsize=8192)
def _gram_buckets(word: str) -> tuple[int, ...]:
    """Buckets of a word's runs of letters; cached, because questions share most of their words."""
    marked = f"<{word}>"
    starts = range(len(marked) - _GRAM + 1) if len(word) >= _GRAM else ()
    return tuple(_bucket(f"#{marked[start : start + _GRAM]}") for start in starts)


def shipped_matchers() -> Path:
    """Folder with the shipped matchers, one file per embedder."""
    return data_folder("prompts") / "memory"


@cache
def read_matcher(embedder: str, folder: Path | None = None) -> RelationMatcher | None:
    """Read a matcher.

    Args:
        embedder: Name of the embedder.
        folder: Folder with files that benchmarks/matcher.py wrote; None means the shipped ones.

    Returns:
        The matcher; None if there is none for this embedder.

    Raises:
        KgeditError: if the file is damaged.
    """
    path = (folder or shipped_matchers()) / f"matcher-{Path(embedder).name}.npz"
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            dense, sparse, intercept = (stored[name].astype(np.float32) for name in ("dense", "sparse", "intercept"))
            vocabulary = read_vocabulary(
                stored["words"].tolist(), stored["relations"].tolist(), stored["explained"].tolist()
            )
            return RelationMatcher(
                stored["asked"].tolist(), stored["before"].tolist(), dense, sparse, intercept, vocabulary
            )
    except (OSError, ValueError, KeyError) as error:
        raise KgeditError(f"{path} holds no relation matcher ({error}). Install kgedit again.") from error


def _log_softmax(scores: Vectors) -> list[float]:
    shifted = scores.astype(np.float64) - float(scores.max())
    logs: list[float] = (shifted - np.log(np.exp(shifted).sum())).tolist()
    return logs
