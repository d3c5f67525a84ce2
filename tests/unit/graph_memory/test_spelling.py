"""Misspelt words of relations in questions."""

from __future__ import annotations

import pytest

from kgedit.graph_memory.relations import read_misspelt, stem

KNOWN = {stem(word) for word in ("county", "counter", "honours")}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("who is the mayer of X", "who is the mayor of X"),
        ("X's spous, the presidant or presidnet", "X's spouse, the president or president"),
        ("wich contry", "which country"),
        # Known words, ordinary ones, names, and words with two wrong letters stay.
        ("the county and the couch of X", "the county and the couch of X"),
        ("Mayer's mayors", "Mayer's mayors"),
        ("the presidonte", "the presidonte"),
        ("the president of X", "the president of X"),
    ],
)
def test_only_misspelt_words_of_relations_are_corrected(text: str, read: str) -> None:
    assert read_misspelt(text, KNOWN | {stem("mayors")}) == read
