"""Questions about chains are read noun phrase by noun phrase, and walked along the relations that these ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest

from kgedit.graph_memory.chains import ChainSearch, FoundChain, steps_of
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.matching import DIRECT, NOTHING, OTHER, RelationMatcher, TextReading, read_matcher
from kgedit.graph_memory.retrieval import Search
from kgedit.llm.embeddings import embedder_on_demand
from kgedit.records.cases import Case, Fact
from kgedit.wording.name_index import Mention

COACH = "On which continent is the country of which the head coach of X is a citizen?"
PARTY = "Which political party is the head of government of the country that X belongs to a member of?"


@pytest.mark.parametrize(
    ("window", "texts"),
    [
        (COACH, ["the head coach of X", "the country of which X is a citizen", "On which continent is X?"]),
        (
            PARTY,
            [
                "the country that X belongs to",
                "the head of government of X",
                "Which political party is X a member of?",
            ],
        ),
        ("X's mayor's wife's birthplace?", ["X's mayor", "X's wife", "X's birthplace?"]),
        (
            "Where was the husband of the founder of X's owner born?",
            ["X's owner", "the founder of X", "the husband of X", "Where was X born?"],
        ),
        ('Where was the founder of "X"\'s owner born?', ["X's owner", "the founder of X", "Where was X born?"]),
        ("what is capital of country of birthplace of X", ["birthplace of X", "country of X", "what is capital of X"]),
    ],
)
def test_each_relation_of_a_chain_has_a_text_of_its_own(window: str, texts: Sequence[str]) -> None:
    steps = steps_of(window)
    assert set(texts) <= {step.text for step in steps}
    # They follow one another: each begins with the span that the one before it leads to.
    spans = [[(step.inner, step.outer) for step in steps if step.text == text] for text in texts]
    reached = {inner for inner, _ in spans[0]}
    for several in spans:
        reached = {outer for inner, outer in several if inner in reached}
    assert None in reached


@pytest.mark.parametrize(
    "window",
    [
        "Who is the mayor of X?",
        "who is the wife of the prime minister of X",
        "Where was X's mayor born?",
        "no name",
        "X",
    ],
)
def test_a_question_about_one_or_two_facts_has_no_steps(window: str) -> None:
    assert steps_of(window) == ()


def test_a_text_full_of_noun_phrases_has_a_bounded_number_of_steps() -> None:
    assert 0 < len(steps_of(f"{'the friend of ' * 60}X is here")) < 60


FACTS = (
    ("Ajax", "P286", "Jonas"),
    ("Jonas", "P27", "Norway"),
    ("Norway", "P30", "Europe"),
    ("Norway", "P6", "Erna"),
    ("Erna", "P27", "Norway"),
    ("Erna", "P106", "politician"),
    ("Erna", "P551", "Lisbon"),
    ("Lisbon", "P30", "Europe"),
    ("Ajax", "P17", "Netherlands"),
    ("Netherlands", "P30", "Europe"),
)


def _memory(embedder: str, facts: Sequence[tuple[str, str, str]], *, matched: bool = False) -> GraphMemory:
    memory = GraphMemory(
        embedder_on_demand(embedder, device="cpu"),  # which keeps vectors of the catalogue on disk
        gate=read_gate(embedder),
        matcher=read_matcher(embedder) if matched else None,
    )
    memory.learn(
        Case(
            case_id=f"{number}",
            timestep="20210101_20220101",
            tag="new",
            fact=Fact(subject.lower(), subject, relation, relation, thing.lower(), thing),
            question=f"What is the {relation} of {subject}?",
            answer=thing,
            cloze="",
            old_objects=(),
            old_answers=(),
            probes=(),
        )
        for number, (subject, relation, thing) in enumerate(facts)
    )
    return memory


class _Reader:
    """A matcher that reads each text as the relation given for it, and the one before it."""

    def __init__(self, texts: Mapping[str, str], before: Mapping[str, str]) -> None:
        names = sorted({*texts.values(), OTHER, NOTHING})
        self.asked = {name: place for place, name in enumerate(names)}
        self.before = {name: place for place, name in enumerate([DIRECT, *sorted({*before.values()})])}
        self._texts, self._before = texts, before

    def read(self, text: str, _vector: Any) -> TextReading:
        asked = [-9.0] * len(self.asked)
        asked[self.asked[self._texts.get(text, NOTHING)]] = -0.1
        before = [-9.0] * len(self.before)
        before[self.before[self._before.get(text, DIRECT)]] = 0.0
        return TextReading(asked, before, cast(RelationMatcher, self))


def _found(
    window: str,
    texts: Mapping[str, str],
    *,
    hops: int = 4,
    start: str = "ajax",
    before: Mapping[str, str] | None = None,
) -> FoundChain | None:
    memory = _memory("character-ngrams", FACTS)
    search = ChainSearch(memory._facts, memory._relations, cast(RelationMatcher, _Reader(texts, before or {})))
    mention = Mention((memory._facts.number_of(start),), 0, 1, nested=False)
    vectors = {step.text: np.zeros(1, dtype=np.float32) for step in steps_of(window)}
    return search.find(mention, window, vectors, Search(hops=hops), None)


READ = {
    "the head coach of X": "P286",
    "the country of which X is a citizen": "P27",
    "On which continent is X?": "P30",
}


def test_the_walk_goes_along_the_relations_of_the_steps() -> None:
    found = _found(COACH, READ)
    assert found is not None
    assert found.path == ("P286", "P27", "P30")
    assert [len(walk) for walk in found.walks] == [3]
    assert found.probability == pytest.approx(np.exp(-0.1))


def test_of_two_chains_the_one_that_reads_more_of_the_question_is_found() -> None:
    window = "On which continent is the town of the leader of the land of X?"
    texts = {
        "the land of X": "P27",
        "the leader of X": "P6",
        "the town of X": "P551",
        "On which continent is X?": "P30",
    }
    # Read without the town, too: Erna's continent.
    texts["On which continent is the town of X?"] = "P106"
    found = _found(window, texts, start="jonas")
    assert found is not None
    assert found.path == ("P27", "P6", "P551", "P30")


def test_the_last_two_relations_may_be_in_one_text() -> None:
    window = "On which continent does the leader of the land of X live?"
    texts = {"the land of X": "P27", "the leader of X": "P6", "On which continent does X live?": "P30"}
    before = {"On which continent does X live?": "P551"}
    assert _found(window, texts, start="jonas") is None
    found = _found(window, texts, before=before, start="jonas")
    assert found is not None
    assert found.path == ("P27", "P6", "P551", "P30")


def test_no_chain_is_longer_than_the_search_allows() -> None:
    assert _found(COACH, READ, hops=2) is None


def test_no_chain_is_found_if_one_of_its_steps_asks_for_something_else() -> None:
    assert _found(COACH, READ | {"the head coach of X": "P35"}) is None


def test_no_walk_comes_back_to_an_entity() -> None:
    window = "What is the state of the leader of the land of X?"
    texts = {"the land of X": "P27", "the leader of X": "P6", "What is the state of X?": "P27"}
    assert _found(window, texts, start="jonas") is None  # Erna's country is Norway, where the walk has been
    found = _found(window, texts | {"What is the state of X?": "P106"}, start="jonas")
    assert found is not None
    assert found.path == ("P27", "P6", "P106")


def test_without_a_matcher_the_wordings_of_whole_chains_are_compared() -> None:
    question = "On which continent is the country of which the head coach of Ajax is a citizen?"
    memory = _memory("character-ngrams", FACTS)
    [finding] = memory.find([question], Search(gate=0.0))
    assert [row.relation for row in finding.paths[0].rows] == ["P286", "P27", "P30"]
    [short] = memory.find([question], Search(gate=0.0, hops=2))
    assert [len(path.rows) for path in short.paths] == [2]


def test_a_name_with_too_many_paths_is_compared_with_short_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgedit.graph_memory.graph_memory._MOST_PATHS", 3)
    question = "On which continent is the country of which the head coach of Ajax is a citizen?"
    [finding] = _memory("character-ngrams", FACTS).find([question], Search(gate=0.0))
    assert max(len(path.rows) for path in finding.paths) == 2


@pytest.mark.models
@pytest.mark.parametrize(
    ("question", "needed"),
    [
        (
            "On which continent is the country of which the head coach of Ajax is a citizen?",
            [("Ajax", "P286"), ("Jonas", "P27"), ("Norway", "P30")],
        ),
        (
            "What is the occupation of the head of government of the country in which the coach of Ajax is a citizen?",
            [("Ajax", "P286"), ("Jonas", "P27"), ("Norway", "P6"), ("Erna", "P106")],
        ),
        # The matcher has no paraphrases of a performer and a genre: the catalogue's wordings stand in for them.
        (
            "Who is the head of government of the country of which the performer of Blue Song is a citizen?",
            [("Blue Song", "P175"), ("Jonas", "P27"), ("Norway", "P6")],
        ),
        ("Who is the head coach of Ajax?", [("Ajax", "P286")]),
        ("Which country is the head coach of Ajax a citizen of?", [("Ajax", "P286"), ("Jonas", "P27")]),
    ],
)
def test_a_memory_finds_every_fact_of_a_chain_and_no_other(question: str, needed: list[tuple[str, str]]) -> None:
    memory = _memory("all-minilm-l6-v2", [*FACTS, ("Blue Song", "P175", "Jonas")], matched=True)
    [finding] = memory.find([question])
    assert [(memory.label_of(row.subject), row.relation) for path in finding.paths for row in path.rows] == needed
