"""Questions about chains of three or four facts, read noun phrase by noun phrase from the name outwards.

"On which continent is the country of which the head coach of X is a citizen?" contains three questions: "the head coach
of X", "the country of which X is a citizen", and "On which continent is X?". The relation matcher, which was trained on
one and two hops, reads each of these texts alone, so that no relation needs wordings for longer questions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kgedit.graph_memory.dates import Period
from kgedit.graph_memory.facts import FactTable
from kgedit.graph_memory.matching import DIRECT, OTHER, RelationMatcher, TextReading
from kgedit.graph_memory.relations import MASK, RelationIndex
from kgedit.graph_memory.retrieval import RankedWalk, Search, Walk
from kgedit.llm.embeddings import Vectors
from kgedit.wording.name_index import Mention

Span = tuple[int, int]
"""Half-open range of a window; the noun phrase that stands for an entity of the chain."""

_Walked = tuple[Walk, tuple[int, ...]]
"""Rows and entities of a walk; one entity more than rows."""

SHORTEST, LONGEST = 3, 4
"""Relations of a chain. Shorter paths are found without it, and longer questions are hard to read (MQuAKE has none)."""

_MOST_STEPS = 48
_MOST_STATES = 40
_MOST_WALKS = 200
_UNLIKELY = math.log(0.05)
"""A relation less probable than this in its phrase is not followed."""
_READ = 0.3
"""Added for each relation: of two chains that are about as probable, the longer one reads more of the question."""
_SHARPNESS = 25.0
"""Of the softmax over the cosines of relations that the matcher does not know."""

_MASK = re.compile(rf"\b{MASK}\b")
_QUOTED = re.compile(rf"[\"\u201c\u201d\u201e]{MASK}[\"\u201c\u201d]")
_PHRASE_STARTS = re.compile(
    r"\b(?P<article>the|an?)\s+(?=\w)|\b(?:of|by)\s+(?!(?:the|an?|which|whom|whose|what)\b)(?=\w)", re.I
)
_RELATIVE = re.compile(r"\b(?:which|that|where|who|whom|whose)\b", re.I)
_WORD = re.compile(r"[^\s,.;:?!]+")
_CONTENT = re.compile(
    r"\b(?!(?:the|an?|of|by|in|on|at|which|that|where|who|whom|whose|what|is|was|are|were|has|had|does|did)\b)"
    r"[^\W\d_]{2,}",
    re.I,
)
"""A word that may belong to a relation."""
_GENITIVE = re.compile(r"['\u2019]s\b")
_VERB = re.compile(r"\s+(?:is|was|are|were|has|had|does|did|belongs?|live[sd]?|come|comes|came)\b", re.I)
_GO_ON = frozenset(["a", "an", "the", "of", "is", "was", "are", "were", "has", "had"])
"""Words that do not end a clause."""
_STARTS, _ENDS = 3, 5
"""Beginnings of a noun phrase that are tried before an entity, and words of a clause after it."""


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One relation of a chain as a text.

    Attributes:
        inner: Span of the entity that it begins with; MASK in the text.
        outer: Span of the entity that it leads to; None if it is the answer.
        text: Text of the outer span, with the inner one masked.
    """

    inner: Span
    outer: Span | None
    text: str


@dataclass(frozen=True, slots=True)
class FoundChain:
    """A path of three or more relations.

    Attributes:
        score: Logarithm of the probability that the texts of its steps ask for its relations.
        path: Ids of the relations.
        walks: Rows along each walk.
    """

    score: float
    path: tuple[str, ...]
    walks: Sequence[Walk]

    @property
    def probability(self) -> float:
        """Geometric mean over the relations, in [0, 1]."""
        return math.exp(self.score / len(self.path))

    def ranked(self, facts: FactTable) -> list[RankedWalk]:
        """Return the walks with the probability of their path."""
        return [RankedWalk(self.probability, max(map(facts.learned, walk)), walk) for walk in self.walks]


@lru_cache(maxsize=256)
def steps_of(window: str) -> tuple[ChainStep, ...]:
    """Steps in which a window with one name masked may be read; none if it has fewer than three relations.

    Every span is the name itself or contains another one, and every step leads from a span to one around it, or to the
    whole window.
    """
    window = _QUOTED.sub(MASK, window)
    found = _MASK.search(window)
    if found is None:
        return ()
    # Relations of the longest way to each span; a span is read after all that it contains.
    depths: dict[Span, int] = {found.span(): 0}
    steps: list[ChainStep] = []
    done: set[Span] = set()
    while (waiting := depths.keys() - done) and len(steps) < _MOST_STEPS:
        inner = min(waiting, key=lambda span: (span[1] - span[0], span))
        done.add(inner)
        steps.append(ChainStep(inner, None, _masked(window, (0, len(window)), inner)))
        for outer in _spans_around(window, inner):
            if not _CONTENT.search(f"{window[: outer[0]]} {window[outer[1] :]}"):
                continue  # "who is the spouse of X": nothing is asked about the spouse
            steps.append(ChainStep(inner, outer, _masked(window, outer, inner)))
            depths[outer] = max(depths.get(outer, 0), depths[inner] + 1)
    return tuple(steps) if max(depths.values()) >= SHORTEST - 1 else ()


def _masked(window: str, outer: Span, inner: Span) -> str:
    return f"{window[outer[0] : inner[0]]}{MASK}{window[inner[1] : outer[1]]}"


def _spans_around(window: str, inner: Span) -> Iterator[Span]:
    """Noun phrases directly around an entity: "the spouse of X", "the country where X was born", "X's spouse"."""
    start, end = inner
    begun = [
        place
        for found in _PHRASE_STARTS.finditer(window, 0, start)
        if _CONTENT.search(window, place := found.start() if found["article"] else found.end(), start)
    ]
    for place in begun[: -_STARTS - 1 : -1]:
        if _RELATIVE.search(window, place, start):
            for found, _ in zip(_words(window, end), range(_ENDS), strict=False):
                if found[0].lower() not in _GO_ON:
                    yield (place, found.end())
        else:
            yield (place, end)
    if (genitive := _GENITIVE.match(window, end)) is not None:
        for found, _ in zip(_words(window, genitive.end()), range(_ENDS), strict=False):
            further = _GENITIVE.search(window, found.start(), found.end())
            if further is not None or found[0].lower() not in _GO_ON:
                yield (start, found.end() if further is None else further.start())
            if further is not None or _VERB.match(window, found.end()):
                return


def _words(window: str, start: int) -> Iterator[re.Match[str]]:
    return _WORD.finditer(window, start)


@dataclass(frozen=True, slots=True)
class _State:
    """A path that leads to the entity of a span.

    Attributes:
        score: See FoundChain.
        span: Span of the entity.
        path: Ids of the relations.
        walks: The walks.
    """

    score: float
    span: Span
    path: tuple[str, ...]
    walks: tuple[_Walked, ...]


@dataclass(frozen=True, slots=True)
class ChainSearch:
    """Walks along the relations that the steps of a question ask for.

    Attributes:
        facts: Facts of the memory.
        relations: Relations by number.
        matcher: Relation matcher.
    """

    facts: FactTable
    relations: RelationIndex
    matcher: RelationMatcher

    def find(
        self,
        mention: Mention,
        window: str,
        vectors: Mapping[str, Vectors],
        search: Search,
        period: Period | None,
    ) -> FoundChain | None:
        """The best chain from a name; None if no chain of facts is what the steps ask for.

        Args:
            mention: The name.
            window: Window around it.
            vectors: Vectors of the texts of `steps_of`.
            search: Search options.
            period: Time in which the facts must hold; None means now.
        """
        steps = steps_of(window)
        if not steps:
            return None
        found = self._chains(mention, steps, vectors, min(search.hops, LONGEST), period)
        return max(found, key=lambda each: (each.score + _READ * len(each.path), each.path), default=None)

    def _chains(
        self,
        mention: Mention,
        steps: Sequence[ChainStep],
        vectors: Mapping[str, Vectors],
        hops: int,
        period: Period | None,
    ) -> Iterator[FoundChain]:
        readings = {
            step.text: _Reading(self.matcher.read(step.text, vectors[step.text]), vectors[step.text], self.relations)
            for step in steps
        }
        [name] = {step.inner for step in steps} - {step.outer for step in steps}
        states = [_State(0.0, name, (), tuple(((), (subject,)) for subject in mention.subjects))]
        for length in range(1, hops + 1):
            reached: dict[tuple[Span, tuple[str, ...]], _State] = {}
            for state in states:
                onward = self._onward(state, period)
                for step in steps:
                    if step.inner != state.span:
                        continue
                    if step.outer is None and length < hops:
                        yield from self._ended(state, onward, readings[step.text], period)
                    if step.outer is None and length < SHORTEST:
                        continue
                    for relation, score in readings[step.text].scores(onward):
                        longer = (state.score + score, (*state.path, relation))
                        if step.outer is None:
                            yield FoundChain(*longer, _rows_of(onward[relation]))
                            continue
                        known = reached.get((step.outer, longer[1]))
                        if known is None or longer[0] > known.score:
                            reached[step.outer, longer[1]] = _State(
                                longer[0], step.outer, longer[1], tuple(onward[relation][:_MOST_WALKS])
                            )
            states = sorted(reached.values(), key=lambda each: (-each.score, each.path, each.span))[:_MOST_STATES]

    def _ended(
        self, state: _State, onward: Mapping[str, Sequence[_Walked]], reading: _Reading, period: Period | None
    ) -> Iterator[FoundChain]:
        """Chains whose last two relations are in one text: "On which continent was X born?"."""
        if len(state.path) + 2 < SHORTEST:
            return
        for first, walks in onward.items():
            if not reading.may_lead(first):
                continue
            path = (*state.path, first)
            last = self._onward(replace(state, path=path, walks=tuple(walks[:_MOST_WALKS])), period)
            for relation, score in reading.scores(last, first):
                yield FoundChain(state.score + score, (*path, relation), _rows_of(last[relation]))

    def _onward(self, state: _State, period: Period | None) -> dict[str, list[_Walked]]:
        """Walks that are one fact longer, by the id of its relation; no walk visits an entity twice."""
        ends = np.array([things[-1] for _, things in state.walks], dtype=np.int32)
        places, rows, things = self.facts.steps(ends, period, ended=True)
        found: dict[str, list[_Walked]] = {}
        numbers = self.facts.relations_of(rows)
        for place, row, thing, number in zip(
            places.tolist(), rows.tolist(), things.tolist(), numbers.tolist(), strict=True
        ):
            walked, visited = state.walks[place]
            if thing not in visited:
                longer = ((*walked, row), (*visited, thing))
                found.setdefault(self.relations.identifiers[number], []).append(longer)
        return found


def _rows_of(walks: Sequence[_Walked]) -> list[Walk]:
    return list(dict.fromkeys(rows for rows, _ in walks))


class _Reading:
    """Probability of each relation in one text, relations without paraphrases included.

    These share the probability of the class OTHER by how similar their wordings are to the text.
    """

    def __init__(self, reading: TextReading, vector: Vectors, relations: RelationIndex) -> None:
        self._reading, self._vector, self._relations = reading, vector, relations
        self._shares: Mapping[str, float] | None = None

    def may_lead(self, relation: str) -> bool:
        """Whether a relation may be the one before the one that the text asks for."""
        place = self._reading.matcher.before.get(relation)
        return place is not None and self._reading.before[place] >= _UNLIKELY

    def scores(self, held: Mapping[str, object], *before: str) -> Iterator[tuple[str, float]]:
        """Relations that the text may ask for, of those that a subject has, with logarithms of their probabilities.

        Args:
            held: Relations of the subject.
            before: Relation that leads to the subject within the text, if any.
        """
        for relation in held:
            score = self._reading.score((*before, relation), held)
            if score is None:
                score = self._unknown(relation, before[0] if before else DIRECT)
            if score >= _UNLIKELY:
                yield relation, score

    def _unknown(self, relation: str, before: str) -> float:
        matcher = self._reading.matcher
        other = self._reading.asked[matcher.asked[OTHER]] + self._reading.before[matcher.before[before]]
        if other < _UNLIKELY:
            return -math.inf
        if self._shares is None:
            self._shares = self._shared()
        share = self._shares.get(relation, 0.0)
        return other + math.log(share) if share else -math.inf

    def _shared(self) -> dict[str, float]:
        catalogue = self._relations.catalogue
        names = [name for name in catalogue.places if name not in self._reading.matcher.asked]
        places = [catalogue.places[name] for name in names]
        vectors = catalogue.vectors
        cosines = np.maximum(vectors.asked_like(self._vector), (vectors.phrases @ self._vector).astype(np.float64))
        weights = np.exp(_SHARPNESS * (cosines[places] - cosines[places].max()))
        return dict(zip(names, (weights / weights.sum()).tolist(), strict=True))
