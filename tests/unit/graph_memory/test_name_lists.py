"""Names of a list are read without each other."""

from __future__ import annotations

import pytest

from kgedit.graph_memory.name_lists import lists_of, read_alone

NAMES = ("Norway", "Sweden", "Oslo", "Vienna", "Austria", "Lyon", "Bonn")


def _spans(text: str) -> list[tuple[int, int]]:
    return [(start, start + len(name)) for name in NAMES if (start := text.find(name)) >= 0]


def _alone(text: str) -> list[str]:
    """The text as each name is read in it, with the name in brackets."""
    spans = sorted(_spans(text))
    found = []
    for name in spans:
        rest, (start, end), _ = read_alone(text, name, [one for one in spans if one != name], lists_of(text, spans))
        found.append(f"{rest[:start]}[{rest[start:end]}]{rest[end:]}")
    return found


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Who runs Norway and Sweden?", ["Who runs [Norway]?", "Who runs [Sweden]?"]),
        ("Who runs Norway, Oslo, or the Lyon?", ["Who runs [Norway]?", "Who runs [Oslo]?", "Who runs [Lyon]?"]),
        ("kings of Norway and of Sweden", ["kings of [Norway]", "kings of [Sweden]"]),
        ("Norway's and Sweden's kings", ["[Norway]'s kings", "[Sweden]'s kings"]),
        ("runs of Nice, Oslo, Foo Bar, Lyon and Ys?", ["runs of [Oslo]?", "runs of [Lyon]?"]),
        ("runs Oslo und Lyon, wer?", ["runs [Oslo], wer?", "runs [Lyon], wer?"]),
        (
            "are Oslo and Lyon in Norway or Sweden?",
            ["are [Oslo] in Norway?", "are [Lyon] in Norway?", "are Oslo in [Norway]?", "are Oslo in [Sweden]?"],
        ),
    ],
)
def test_each_name_of_a_list_is_read_alone(text: str, read: list[str]) -> None:
    assert _alone(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "the king of Norway and the mayor of Oslo",
        "the border between Norway and Sweden",
        "Oslo, Norway",
        "Norway and Foo",
        "Is Oslo the capital of Norway?",
        "Does Norway or Sweden border Finland?",
    ],
)
def test_other_names_are_read_with_each_other(text: str) -> None:
    assert lists_of(text, _spans(text)) == []


def test_a_country_after_a_city_belongs_to_it() -> None:
    assert _alone("mayors of Oslo and Vienna, Austria") == [
        "mayors of [Oslo]",
        "mayors of [Vienna], Austria",
        "mayors of Vienna, [Austria]",
    ]
