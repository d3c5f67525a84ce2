"""Names in a question: whole words, regardless of case and accents."""

from __future__ import annotations

import pytest

from kgedit.graph_memory.other_names import initials_of, nicknames_of
from kgedit.wording.name_index import NameIndex, composed


def _index(*names: str) -> NameIndex:
    index = NameIndex()
    for number, name in enumerate(names):
        index.add(name, number)
    return index


def _found(index: NameIndex, text: str) -> list[tuple[str, tuple[int, ...], bool]]:
    text = composed(text)
    return [(text[mention.start : mention.end], mention.subjects, mention.nested) for mention in index.find(text)]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("Iran", "Who leads Tirana?", []),
        ("Norway", "Who is NORWAY's king?", ["NORWAY"]),
        ("São Paulo", "who runs sao  paulo?", ["sao  paulo"]),
        ("Malmo\u0308", "Who is the mayor of Malmö?", ["Malmö"]),
        ("Jean-Luc Picard", "Where was jean luc picard born?", ["jean luc picard"]),
        ("New York City", "Who is the mayor of New York?", []),
    ],
)
def test_a_name_is_found_as_its_words(name: str, text: str, found: list[str]) -> None:
    assert [text for text, _, _ in _found(_index(name), text)] == found


def test_a_name_within_a_longer_one_is_found_and_marked() -> None:
    index = _index("Luxembourg", "Chamber of Deputies of Luxembourg")
    assert _found(index, "Who chairs the Chamber of Deputies of Luxembourg?") == [
        ("Chamber of Deputies of Luxembourg", (1,), False),
        ("Luxembourg", (0,), True),
    ]


def test_a_name_of_several_gives_all_of_them_in_order() -> None:
    assert _found(_index("Springfield", "Shelbyville", "springfield"), "Who is the mayor of Springfield?") == [
        ("Springfield", (0, 2), False)
    ]


def test_a_name_without_letters_is_passed_over() -> None:
    assert len(_index("…", "")) == 0


@pytest.mark.parametrize("typed", ["Norwey", "Norwa", "Norwayy", "Nrowway", "Nowray"])
def test_a_name_with_one_wrong_letter_is_found_when_asked_for(typed: str) -> None:
    index, text = _index("Norway", "Sweden"), f"Who leads {typed}?"
    one_step = typed != "Nrowway"
    assert index.find(text) == []
    assert [mention.subjects for mention in index.find_misspelt(text)] == ([(0,)] if one_step else [])


def test_each_misspelt_word_of_a_text_is_near_its_own_name() -> None:
    index, text = _index("Norway", "Sweden"), "Is Norwey or Swedn larger than Norway?"
    found = [(text[each.start : each.end], each.subjects) for each in index.find_misspelt(text)]
    assert found == [("Norwey", (0,)), ("Swedn", (1,))]


def test_names_learned_after_a_misspelt_question_are_found_misspelt_too() -> None:
    index = _index("Norway")
    index.find_misspelt("anything")
    index.add("Denmark", 7)
    assert [mention.subjects for mention in index.find_misspelt("Who leads Denmarck?")] == [(7,)]


def test_short_words_are_not_guessed_at() -> None:
    assert _index("Iran").find_misspelt("Who leads Iraq?") == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("South Korea", "where was south koreas president born", ["south korea"]),
        ("Norwegen", "Wer ist Norwegens König?", ["Norwegen"]),
        ("Iran", "who runs tirans", []),
        ("Rom", "the roms of Rom", []),  # too short for a genitive: "roms" is a word
        ("New York City", "new yorks city", []),
        ("Mali", "a mali", []),
    ],
)
def test_a_genitive_s_without_an_apostrophe_follows_the_name(name: str, text: str, found: list[str]) -> None:
    mentions = _index(name).find_genitives(composed(text))
    assert [text[each.start : each.end] for each in mentions] == found


@pytest.mark.parametrize(
    ("label", "initials"),
    [
        ("Fédération Internationale de l'Automobile", "FIA"),
        ("World Trade Organization", "WTO"),
        ("Real Madrid CF", ""),
        ("mayor of New York City", ""),
        ("Oslo", ""),
    ],
)
def test_organizations_have_initials(label: str, initials: str) -> None:
    assert initials_of(label) == initials
    assert (initials in nicknames_of(label, person=False)) is bool(initials)
