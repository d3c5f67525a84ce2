"""Words next to a name that no wording of a relation explains, by their place in the text."""

from __future__ import annotations

import pyarrow as pa
import pytest
from world.small_memory import small_memory

from kgedit.graph_memory.asking import MemoryAnswer, ask_memory
from kgedit.graph_memory.graph_memory import Unused
from kgedit.graph_memory.matching import Unexplained, Vocabulary, read_matcher
from kgedit.graph_memory.retrieval import Finding, Search


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    matcher = read_matcher("all-minilm-l6-v2")
    assert matcher is not None
    return matcher.vocabulary


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("Who is the prime minister of X?", "P6"),
        ("who's running X these days?", "P6"),
        ("Could you please tell me who the current mayor of X is?", "P6"),
        ("What is X's head office?", "P159"),
        ("Who coaches the club X?", "P286"),
        ("Who is Y's coach, I mean X's coach?", "P286"),
        ("who is the coash of X", "P286"),
    ],
)
def test_usual_questions_are_explained(vocabulary: Vocabulary, text: str, relation: str) -> None:
    found = vocabulary.unexplained(text, [relation])
    assert (found.leading, found.after, found.owned, found.asking, found.names) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "relation", "place"),
    [
        ("Who is the chief whip of the X?", "P488", "leading"),
        ("Who coaches the women's side of X?", "P286", "leading"),
        ("Who was the first mayor of X?", "P6", "leading"),
        ("Who is the head gardener of the president of X?", "P35", "leading"),
        ("Who ran the X marathon?", "P6", "after"),
        ("Which club does X's cousin play for?", "P54", "owned"),
        ("Who guards the president of X?", "P35", "asking"),
        ("What salary does the president of X get?", "P35", "asking"),
        ("Who is the mayor of X, Utah?", "P6", "names"),
        ("Who is the mayor of Bremen, X?", "P6", "names"),
        ("Who is the professor of Y at X?", "P488", "names"),
    ],
)
def test_other_words_count_by_their_place(vocabulary: Vocabulary, text: str, relation: str, place: str) -> None:
    assert getattr(vocabulary.unexplained(text, [relation]), place) >= 1


def test_a_first_word_is_explained_with_its_noun(vocabulary: Vocabulary) -> None:
    assert vocabulary.unexplained("Who is the first minister of X?", ["P6"]).leading == 0
    assert vocabulary.unexplained("Who is the first mayor of X?", ["P6"]).leading == 1


def test_words_far_from_the_name_count_apart() -> None:
    vocabulary = Vocabulary({"govern": frozenset(["P6"]), "who": frozenset([""])})
    found = vocabulary.unexplained("Thunder and lightning: who governs X?", ["P6"])
    assert found == Unexplained(leading=0, after=0, owned=0, asking=0, elsewhere=3, names=0)
    assert vocabulary.unexplained("who governs X", ["P36"]).asking == 1


def test_offices_that_a_subject_owns_count_with_their_field(vocabulary: Vocabulary) -> None:
    assert vocabulary.unexplained("Who is X's minister of fisheries?", ["P6"]).after == 1
    assert vocabulary.unexplained("Who is X's head of government?", ["P6"]).after == 0


def test_an_office_before_a_verb_is_explained(vocabulary: Vocabulary) -> None:
    assert vocabulary.unexplained("Where did X's coach study?", ["P286", "P69"]).after == 0
    assert vocabulary.unexplained("Who is the captain of X?", ["P286"]).leading == 1


EXCLUDED = (
    "the question is not about {} (words of the question, parts of longer names, or next to words that mean another "
    "subject)"
)


@pytest.mark.parametrize(
    ("unused", "as_of", "why"),
    [
        ({"VfB Stuttgart": "excluded"}, "2019", EXCLUDED.format("VfB Stuttgart")),
        (
            {"Norway": "no fact then", "Sweden": "no fact then"},
            "",
            "the memory contains no fact of Norway, Sweden at that time",
        ),
        ({"Norway": "no fact then"}, "1750", "the memory contains no fact of Norway as of 1750"),
        ({"Norway": "no fact"}, "", "the memory contains no current fact of Norway"),
        (
            {"chancellor": "excluded", "Norway": "not asked"},
            "",
            "the memory contains facts of Norway, but the question "
            "asks for none of them; " + EXCLUDED.format("chancellor"),
        ),
    ],
)
def test_each_name_has_its_own_reason_for_nothing(unused: dict[str, Unused], as_of: str, why: str) -> None:
    names = tuple((name, ("Q1",)) for name in unused)
    assert MemoryAnswer("", as_of, Finding(), None, names, 0.5, unused).why_nothing == why


def test_only_a_date_makes_time_the_reason() -> None:
    memory = small_memory()
    memory.end_values(*(pa.array([text]) for text in ("sweden", "P6", "magdalena", "2022-06-01")))
    search = Search(gate=0.0)
    for question, as_of, name, why in (
        ("Who governs Sweden?", "", "Sweden", "no fact"),
        ("Who governs Sweden?", "2023", "Sweden", "no fact then"),
        ("Who governed Norway in 1750?", "", "Norway", "no fact then"),
    ):
        assert ask_memory(memory, question, search, as_of=as_of).unused == {name: why}
    assert ask_memory(memory, "Who governs Norway?", search).unused == {}
