"""Texts as vectors: equal texts, rankings, and what is saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kgedit.editing.in_context import text_index
from kgedit.editing.in_context.text_index import TextIndex
from kgedit.llm.embeddings import Vectors, load_embedder

TOWNS = ["Arvika", "Borgholm", "Falun", "Hjo", "Kalix", "Mora"]
TEXTS = [
    f"{ask} {town}?" for town in TOWNS for ask in ("Who is the mayor of", "Which is the river of", "Where is the map")
]


def _index(*portions: Sequence[str], search: str = "exact") -> TextIndex:
    index = TextIndex(load_embedder("character-ngrams", device="cpu"), search=search)
    for texts in portions:
        index.add(texts)
    return index


def test_a_text_that_comes_again_has_the_same_vector_whatever_the_embedder_says() -> None:
    noise = np.random.default_rng(0)

    def embed(texts: Sequence[str]) -> Vectors:
        vectors = np.eye(3, dtype=np.float32)[["abc".index(text) for text in texts]]
        return vectors + 1e-6 * noise.standard_normal(vectors.shape).astype(np.float32)

    index = TextIndex(embed)
    for texts in (["a", "b", "a"], ["c"], ["b", "c", "a"]):
        index.add(texts)

    assert [np.array_equal(index.vector(0), index.vector(place)) for place in (2, 6)] == [True, True]
    assert [index.nearest(["a"], k=4)[0][:3] for _ in range(20)] == [[6, 2, 0]] * 20
    assert index.nearest(["b", "c"], k=2) == [[4, 1], [5, 3]]


@pytest.mark.parametrize("portion", [1, 3, 64])
def test_a_ranking_is_the_whole_order_in_portions(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "_PORTION", portion)
    index = _index(TEXTS, TEXTS[::-1])
    whole = index.nearest(TEXTS, k=len(index))

    assert [list(index.ranking(index.vector(place))) for place in range(len(TEXTS))] == whole
    assert list(_index().ranking(index.vector(0))) == []


@pytest.mark.parametrize("search", ["exact", "hnsw"])
def test_a_saved_index_goes_on_with_the_texts_that_it_had(search: str) -> None:
    if search == "hnsw":
        pytest.importorskip("faiss")
    unbroken, resumed = _index(TEXTS[:9], search=search), _index(search=search)
    resumed.load(unbroken.saved(), TEXTS[:9])
    for index in (unbroken, resumed):
        index.add(TEXTS[6:])

    assert resumed.nearest(TEXTS, k=4) == unbroken.nearest(TEXTS, k=4)
    assert [found[:2] for found in resumed.nearest(TEXTS[6:9], k=2)] == [[9, 6], [10, 7], [11, 8]]
    resumed.clear()
    assert resumed.nearest(TEXTS, k=4) == [[] for _ in TEXTS]
