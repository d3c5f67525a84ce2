"""The gate: whether a memory says anything at all to a question, by a probability that was learnt from known facts.

Memories must keep silent on what they do not know, though some path is always the most similar one. The weights come
from benchmarks/gate.py, which asks for facts in held-out wordings and for facts that are not there; they are shifted
so that .5 is the probability at which the script was told to close.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kgedit.errors import KgeditError
from kgedit.resources import data_folder

DEFAULT_EMBEDDER = "all-minilm-l6-v2"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for the best path of a question.

    Rivals are relations of the catalogue that no path tells, each in its most similar wording; relations that the
    subject lacks are those that no path begins with. A phrase is a relation's noun phrase ("the head coach of X").

    Attributes:
        similarity: Cosine of the question's best window with the path's most similar question.
        words: Share of the window's telling words that are the path's, by weight; words of no relation tell nothing.
        covered: The same of all of its content words, those of no relation counted as rare ones.
        margin: Similarity less that of the most similar rival.
        words_margin: `covered` less that of the best rival.
        end_margin: Similarity less that of the best relation that the subject lacks and that ends some path from it.
        rank: Logarithm of 1 + rivals that are more similar than the path.
        bridge: Of a path of several relations, the part of `covered` that speaks for those before the last: words that
            the last one does not have, or that are there twice.
        conflict: 1 where the question's "who", "when" or "how many" asks for another type than the path's answer.
        phrase: Cosine of the window with the path's phrase.
        phrase_margin: `phrase` less that of the most similar rival's phrase.
        phrase_rank: Logarithm of 1 + relations that the subject lacks whose phrases are more similar than the path's.
        soft_margin: Similarity less a smooth maximum over all relations that the subject lacks.
        soft_phrase_margin: The same of phrases.
        over_first: Similarity less that of the path's first relation alone; 0 for a path of one.
        over_last: Similarity less that of its last relation alone.
        first_margin: Cosine with the first relation's phrase less that of the best phrase of relations beside the path.
        last_margin: Cosine with the last relation's question less that of the best relation beside the path.
        hops: Relations of the path.
    """

    similarity: float
    words: float
    covered: float
    margin: float
    words_margin: float
    end_margin: float
    rank: float
    bridge: float
    conflict: float
    phrase: float
    phrase_margin: float
    phrase_rank: float
    soft_margin: float
    soft_phrase_margin: float
    over_first: float
    over_last: float
    first_margin: float
    last_margin: float
    hops: int


FEATURES = tuple(field.name for field in fields(Evidence) if field.name != "hops")


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic function of FEATURES.

    Attributes:
        intercept: Added to the weighted sum.
        weights: One for each of FEATURES.
    """

    intercept: float
    weights: tuple[float, ...]

    def probability(self, values: Sequence[float]) -> float:
        """Of the values of FEATURES."""
        total = self.intercept + sum(weight * value for weight, value in zip(self.weights, values, strict=True))
        return 1 / (1 + math.exp(-max(-40.0, min(40.0, total))))


@dataclass(frozen=True, slots=True)
class Gate:
    """What was learnt, for paths of one relation and for longer ones: these are the likelier to be beside the point.

    Attributes:
        short: For paths of one relation.
        long: For paths of several.
    """

    short: Logistic
    long: Logistic

    def probability(self, evidence: Evidence) -> float:
        """How likely it is that the best path is what the question asks for; 0 to 1."""
        chosen = self.short if evidence.hops == 1 else self.long
        return chosen.probability([getattr(evidence, name) for name in FEATURES])


def shipped_gates() -> Path:
    """The learnt gates that come with kgedit, by embedder."""
    return data_folder("prompts") / "memory" / "gates.yaml"


@cache
def read_gate(embedder: str = DEFAULT_EMBEDDER, path: Path | None = None) -> Gate:
    """A learnt gate.

    Args:
        embedder: The name of its embedder; that of DEFAULT_EMBEDDER is taken for one that has none of its own.
        path: A file that benchmarks/gate.py wrote; None for the shipped one.

    Raises:
        KgeditError: if the file is none of gates.
    """
    path = path or shipped_gates()
    try:
        gates: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["gates"]
        learnt = gates.get(embedder, gates[DEFAULT_EMBEDDER])
        return Gate(_logistic(learnt["short"]), _logistic(learnt["long"]))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise KgeditError(
            f"{path} holds no gate of a memory ({error}). Write one: python benchmarks/gate.py --write {path}"
        ) from error


def _logistic(learnt: Mapping[str, float]) -> Logistic:
    return Logistic(float(learnt["intercept"]), tuple(float(learnt[name]) for name in FEATURES))
