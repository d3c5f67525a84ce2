"""Words next to a name that no wording of a relation explains, by their place in the text."""

from __future__ import annotations

import pytest

from kgedit.graph_memory.asking import MemoryAnswer
from kgedit.graph_memory.matching import Unexplained, Vocabulary, read_matcher
from kgedit.graph_memory.retrieval import Finding


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


def test_names_that_mean_another_subject_are_a_reason_for_nothing() -> None:
    names = (("VfB Stuttgart", ("Q4512",)),)
    answer = MemoryAnswer("Who coaches the women's team of VfB Stuttgart?", "", Finding(), None, names, 0.5)
    assert answer.why_nothing == (
        "the memory contains no fact of VfB Stuttgart at that time, or the words beside the name mean another subject"
    )
