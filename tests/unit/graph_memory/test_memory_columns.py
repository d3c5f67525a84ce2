"""Columns and the index over them: added values are found, in order, in any combination."""

from __future__ import annotations

import numpy as np
import pytest

from kgedit.columns import KeyedNumbers, NumberColumn, TextColumn, hashed


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_numbers_of_a_key_come_in_the_order_in_which_they_were_added(at_once: int) -> None:
    keys = np.random.default_rng(0).integers(0, 9, size=100).astype(np.uint64)
    index = KeyedNumbers()
    for start in range(0, 100, at_once):
        chunk = keys[start : start + at_once]
        index.add(chunk, np.arange(start, start + len(chunk)))
    asked = np.array([4, 77, 0], dtype=np.uint64)
    places, numbers = index.find(asked)
    assert numbers[places == 0].tolist() == np.flatnonzero(keys == 4).tolist()
    assert numbers[places == 1].tolist() == []
    assert numbers[places == 2].tolist() == np.flatnonzero(keys == 0).tolist()
    assert index.first(asked).tolist() == [np.flatnonzero(keys == 4)[0], -1, np.flatnonzero(keys == 0)[0]]


def test_a_few_pairs_added_to_many_do_not_sort_the_many_anew() -> None:
    index = KeyedNumbers()
    index.add(np.arange(1000, dtype=np.uint64), np.arange(1000))
    long, _ = index._runs[0]
    index.add(np.array([5], dtype=np.uint64), [2000])
    assert index._runs[0][0] is long
    assert index.find(np.array([5], dtype=np.uint64))[1].tolist() == [5, 2000]


def test_a_range_of_keys_includes_both_ends() -> None:
    index = KeyedNumbers()
    index.add(np.array([3, 1, 7, 5], dtype=np.uint64), [30, 10, 70, 50])
    places, numbers = index.between(np.array([1, 4], dtype=np.uint64), np.array([3, 4], dtype=np.uint64))
    assert (places.tolist(), numbers.tolist()) == ([0, 0], [10, 30])


def test_an_empty_index_finds_nothing() -> None:
    assert KeyedNumbers().first(np.array([1], dtype=np.uint64)).tolist() == [-1]
    assert KeyedNumbers().find(np.array([1], dtype=np.uint64))[1].tolist() == []


def test_texts_and_numbers_are_read_back() -> None:
    texts, numbers = TextColumn(), NumberColumn()
    said = ["", "Malmö", "東京", *(f"name {number}" for number in range(40))]
    for text in said:
        texts.extend([text])
        numbers.extend([len(text)])
    assert [texts[number] for number in range(len(texts))] == said
    assert texts.to_arrow().to_pylist() == said
    assert numbers.view.tolist() == [len(text) for text in said]


def test_the_key_of_a_text_is_the_same_in_every_process() -> None:
    assert hashed(["Norway"]).tolist() == [12399045955822754933]
