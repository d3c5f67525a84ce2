"""The gate decides whether a memory has a fact for a question, by a probability fitted on known facts.

Some path is always the most similar one, and a memory must not answer what it does not know. benchmarks/gate.py fits
the weights on questions in held-out wordings and on questions about missing facts. It shifts them so that .5 is the
probability at which the gate closes.
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
from kgedit.yaml_files import load_yaml

DEFAULT_EMBEDDER = "all-minilm-l6-v2"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Features of the best path for a question.

    A rival is a relation of the catalogue that is the last one of no path, in its most similar wording. Relations that
    the subject lacks are those that no path begins with. A phrase is a relation's noun phrase ("the head coach of X").

    Attributes:
        similarity: Cosine of the question's best window and the path's most similar question.
        words: Weighted share of the window's relation words that occur in the path's wordings; words that occur in no
            relation's wording are ignored.
        covered: The same share of all content words; words that occur in no relation's wording count as rare.
        margin: Similarity minus that of the most similar rival.
        words_margin: `covered` minus that of the best rival.
        end_margin: Similarity minus that of the best relation that the subject lacks and that ends a path from it.
        rank: Logarithm of 1 + the number of rivals that are more similar than the path.
        bridge: For a path of several relations, the part of `covered` that belongs to relations before the last: words
            that the last one does not have, or that occur twice.
        conflict: 1 if the question's "who", "when" or "how many" asks for another type than the path's answer.
        phrase: Cosine of the window and the path's phrase.
        phrase_margin: `phrase` minus that of the most similar rival's phrase.
        phrase_rank: Logarithm of 1 + the number of relations that the subject lacks whose phrases are more similar.
        soft_margin: Similarity minus a smooth maximum over all relations that the subject lacks.
        soft_phrase_margin: `soft_margin` of phrases.
        over_first: Similarity minus that of the path's first relation alone; 0 for a path of one relation.
        over_last: Similarity minus that of the path's last relation alone.
        first_margin: Cosine with the first relation's phrase minus that of the best phrase outside the path.
        last_margin: Cosine with the last relation's question minus that of the best relation outside the path.
        hops: Number of relations in the path.
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
        weights: One weight per feature, in the order of FEATURES.
    """

    intercept: float
    weights: tuple[float, ...]

    def probability(self, values: Sequence[float]) -> float:
        """Probability for the values of FEATURES, in [0, 1]."""
        total = self.intercept + sum(weight * value for weight, value in zip(self.weights, values, strict=True))
        return 1 / (1 + math.exp(-max(-40.0, min(40.0, total))))


@dataclass(frozen=True, slots=True)
class Gate:
    """Fitted functions for paths of one relation and for longer paths, which are wrong more often.

    Attributes:
        short: For paths of one relation.
        long: For paths of several relations.
    """

    short: Logistic
    long: Logistic

    def probability(self, evidence: Evidence) -> float:
        """Probability that the best path answers the question, in [0, 1]."""
        chosen = self.short if evidence.hops == 1 else self.long
        return chosen.probability([getattr(evidence, name) for name in FEATURES])


@dataclass(frozen=True, slots=True)
class MatchEvidence:
    """Features of the best path that the relation matcher found; probabilities are logarithms.

    Attributes:
        score: Probability of the path in its best window.
        nothing: Probability in that window that no relation is asked for.
        other: Probability in that window of a relation without paraphrases.
        whole: Probability that the whole text asks for no relation.
        held: Probability mass of all relations that the last subject of the path has, in that window.
        two_hops: 1 for a path of two relations.
        back: 1 for a path from a value to its subject.
        derived: 1 for a nickname, short form or surname.
        misspelt: 1 for a misspelt name.
        nested: 1 for a name inside a longer one.
        continued: 1 if a capitalized word is next to the name, as in "Paris Hilton".
        small: 1 for a name without capitals in a text that has some, besides abbreviations.
        words: Number of words of the name, at most 3.
        odd_leading: Number of words that nothing explains (kgedit.graph_memory.matching) in the noun phrases that
            lead to the name in that window, at most 2.
        odd_after: Number of them after the name, at most 2.
        odd_owned: 1 if one of them follows the name's genitive ("X's dentist").
        odd_asking: Number of them that are asked about ("Who guards the president of X?"), at most 1.
        odd_elsewhere: Number of them in the rest of the sentence, at most 3.
        odd_names: Number of other names in those noun phrases or beside the name, at most 2.
        odd_any: 1 if any of these but odd_elsewhere is not 0.
        odd_style: odd_elsewhere if odd_any is 1, else 0: in an unusual style an unusual word says less.
        stated: 1 if the text is written as a statement that asks for no confirmation.
        past_event: 1 if it asks for the time of an event ("Who was king when …?"), which no fact is dated by.
    """

    score: float
    nothing: float
    other: float
    whole: float
    held: float
    two_hops: float
    back: float
    derived: float
    misspelt: float
    nested: float
    continued: float
    small: float
    words: float
    odd_leading: float
    odd_after: float
    odd_owned: float
    odd_asking: float
    odd_elsewhere: float
    odd_names: float
    odd_any: float
    odd_style: float
    stated: float
    past_event: float


_LEAST_SCORE = math.log(0.02)
"""A path less probable than this is not what is asked for, however certain it is that something is."""

MATCH_FEATURES = tuple(field.name for field in fields(MatchEvidence))


@dataclass(frozen=True, slots=True)
class MatchGate:
    """A logistic function of MATCH_FEATURES; features without a weight have none.

    Attributes:
        intercept: Added to the weighted sum.
        weights: Weight of each feature.
    """

    intercept: float
    weights: Mapping[str, float]

    def probability(self, evidence: MatchEvidence) -> float:
        """Probability that the best path answers the question, in [0, 1]."""
        if evidence.score < _LEAST_SCORE:
            return math.exp(evidence.score)
        total = self.intercept + sum(weight * getattr(evidence, name) for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(-40.0, min(40.0, total))))


@cache
def read_match_gate() -> MatchGate:
    """Read the gate of the relation matcher, which benchmarks/match_gate.py writes.

    Raises:
        KgeditError: if the file contains no such gate.
    """
    path = data_folder("prompts") / "memory" / "match_gate.yaml"
    try:
        fitted: Mapping[str, float] = load_yaml(path.read_text(encoding="utf-8"))["gate"]
        weights = {name: float(value) for name, value in fitted.items() if name != "intercept"}
        return MatchGate(float(fitted["intercept"]), weights)
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise KgeditError(f"{path} holds no gate of a matcher ({error}). Install kgedit again.") from error


def shipped_gates() -> Path:
    """File with the shipped gates, by embedder."""
    return data_folder("prompts") / "memory" / "gates.yaml"


@cache
def read_gate(embedder: str = DEFAULT_EMBEDDER, path: Path | None = None) -> Gate:
    """Read a fitted gate.

    Args:
        embedder: Name of the embedder. An embedder without a gate uses the gate of DEFAULT_EMBEDDER.
        path: A file written by benchmarks/gate.py; None means the shipped file.

    Raises:
        KgeditError: if the file contains no gates.
    """
    path = path or shipped_gates()
    try:
        gates: Mapping[str, Any] = load_yaml(path.read_text(encoding="utf-8"))["gates"]
        fitted = gates.get(embedder, gates[DEFAULT_EMBEDDER])
        return Gate(_logistic(fitted["short"]), _logistic(fitted["long"]))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise KgeditError(
            f"{path} contains no gate of a memory ({error}). Write one: python benchmarks/gate.py --write {path}"
        ) from error


def _logistic(fitted: Mapping[str, float]) -> Logistic:
    return Logistic(float(fitted["intercept"]), tuple(float(fitted[name]) for name in FEATURES))
