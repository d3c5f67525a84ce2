"""A capitalized word next to a name makes it another name, unless it is a title or a word of the language."""

from __future__ import annotations

import pytest

from kgedit.graph_memory.longer_names import name_goes_on
from kgedit.wording.name_index import NameIndex

LABELS = ("Ronaldo", "Mexico", "Norway", "Madrid", "Boston", "Charles", "Germany", "France", "X")


def _goes_on(text: str) -> list[str]:
    index = NameIndex()
    index.extend(LABELS, range(len(LABELS)))
    mentions = index.find(text)
    return [
        text[each.start : each.end]
        for each in mentions
        if name_goes_on(text, each, [LABELS[number] for number in each.subjects], mentions)
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Where does Cristiano Ronaldo play?", "Ronaldo"),
        ("Where does Ronaldo Nazario live?", "Ronaldo"),
        ("Who governs New Mexico?", "Mexico"),
        ("Who coaches Real Madrid?", "Madrid"),
        ("Is Charles III ill?", "Charles"),
        ("And Boston-Nord, who is its mayor?", "Boston"),
    ],
)
def test_a_longer_name_is_another_one(text: str, name: str) -> None:
    assert _goes_on(text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Where does Ronaldo play?",
        "Is Norway in NATO?",
        "Hello. Has Norway a king?",
        "who is the president of New mexico",
        "Who is King Charles?",
        "Norway Prime Minister?",
        "Norway UK relations",
        "Germany France: which coach?",
        "Who Is The Current President Of Mexico Today",
        "Wer ist Deutschlands Trainer, Boston Bürgermeister?",
        "Ronaldo's Club?",
        "Is X Corp. a company?",
    ],
)
def test_other_words_do_not_belong_to_a_name(text: str) -> None:
    assert _goes_on(text) == []
