"""Searching vectors, given directly: against a full sort, resumed in the middle, and without faiss."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgedit.editing.in_context.text_index import VECTOR_INDEXES, HnswIndex, VectorIndex
from kgedit.errors import MissingExtraError
from kgedit.llm.embeddings import Vectors

needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss-cpu is not installed")
KINDS = ["exact", pytest.param("hnsw", marks=needs_faiss)]


def _clustered(count: int, *, seed: int = 0, width: int = 48, clusters: int = 60) -> Vectors:
    """Unit vectors around random centres, as the questions of one relation lie around one another."""
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((clusters, width))
    vectors = centres[draw.integers(0, clusters, count)] + 0.4 * draw.standard_normal((count, width))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _filled(kind: str, *portions: Vectors) -> VectorIndex:
    index = VECTOR_INDEXES[kind]()
    for vectors in portions:
        index.add(vectors)
    return index


def _by_full_sort(vectors: Vectors, query: Vectors, k: int) -> list[int]:
    scores = vectors.astype(np.float64) @ query.astype(np.float64)
    order: list[int] = np.lexsort((-np.arange(len(vectors)), -scores))[:k].tolist()
    return order


WHOLE = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
"""Whole numbers: inner products are exact, and equal ones abound, at the k-th place too."""


@settings(deadline=None)
@given(
    memory=st.lists(WHOLE, min_size=1, max_size=40),
    queries=st.lists(WHOLE, min_size=1, max_size=4),
    k=st.integers(1, 45),
    cut=st.integers(1, 40),
)
def test_exact_search_finds_what_a_full_sort_finds_ties_included(
    memory: list[list[int]], queries: list[list[int]], k: int, cut: int
) -> None:
    vectors, asked = np.array(memory, dtype=np.float32), np.array(queries, dtype=np.float32)
    index = _filled("exact", *(part for part in (vectors[:cut], vectors[cut:]) if len(part)))

    assert index.nearest(asked, k=k) == [_by_full_sort(vectors, query, k) for query in asked]


@pytest.mark.parametrize("kind", KINDS)
def test_of_equal_vectors_the_later_is_better_however_many_are_asked_about_at_once(kind: str) -> None:
    vectors = _clustered(333)
    index = _filled(kind, vectors, vectors[::-1].copy(), vectors)
    later = [[len(vectors) * 2 + place, len(vectors) * 2 - 1 - place, place] for place in range(len(vectors))]

    assert index.nearest(vectors, k=3) == later
    assert [index.nearest(vectors[place : place + 1], k=1)[0] for place in range(9)] == [[row[0]] for row in later[:9]]


def test_exact_search_gives_the_same_in_any_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = _clustered(500), _clustered(40, seed=1)
    at_once = _filled("exact", vectors).nearest(queries, k=7)
    monkeypatch.setattr("kgedit.editing.in_context.text_index._SCORES_AT_ONCE", 1500)
    one_by_one = _filled("exact", *np.split(vectors, 500))

    assert one_by_one.nearest(queries, k=7) == at_once
    assert np.array_equal(one_by_one.saved(), vectors)


@pytest.mark.parametrize("kind", KINDS)
def test_there_may_be_fewer_than_k_or_none(kind: str) -> None:
    vectors = _clustered(3)

    assert VECTOR_INDEXES[kind]().nearest(vectors, k=2) == [[], [], []]
    assert sorted(_filled(kind, vectors).nearest(vectors[:1], k=9)[0]) == [0, 1, 2]


@needs_faiss
@pytest.mark.parametrize("seed", [0, 1])
def test_hnsw_finds_nearly_all_of_the_best_two(seed: int) -> None:
    everything = _clustered(4200, seed=seed)
    vectors, queries = everything[:4000], everything[4000:]
    exact = _filled("exact", vectors).nearest(queries, k=2)
    found = _filled("hnsw", *np.split(vectors, 40)).nearest(queries, k=2)

    same = [len(set(a) & set(b)) for a, b in zip(exact, found, strict=True)]
    assert sum(same) >= 0.95 * 2 * len(queries)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_saved_in_the_middle_goes_on_as_if_it_had_not_been(kind: str) -> None:
    vectors, queries = _clustered(1200), _clustered(60, seed=1)
    first, *rest = np.split(vectors, [500, 501, 502, 800])
    unbroken, resumed = _filled(kind, first), VECTOR_INDEXES[kind]()
    resumed.load(unbroken.saved().copy())
    for portion in rest:
        unbroken.add(portion)
        resumed.add(portion)

    assert resumed.nearest(queries, k=5) == unbroken.nearest(queries, k=5)
    assert np.array_equal(resumed.saved(), unbroken.saved())


def test_hnsw_builds_the_same_graph_whatever_the_threads_and_leaves_their_number_alone() -> None:
    faiss = pytest.importorskip("faiss")
    vectors = _clustered(1500)
    threads = faiss.omp_get_max_threads()
    try:
        saved = []
        for count in (1, 4):
            faiss.omp_set_num_threads(count)
            saved.append(_filled("hnsw", vectors[:700], vectors[700:]).saved())
            assert faiss.omp_get_max_threads() == count
    finally:
        faiss.omp_set_num_threads(threads)

    assert np.array_equal(*saved)


def test_hnsw_gives_vectors_added_one_by_one_levels_of_their_own() -> None:
    faiss = pytest.importorskip("faiss")
    index = HnswIndex()
    for vector in _clustered(800, width=4):
        index.add(vector[None])
    levels = np.bincount(faiss.vector_to_array(index._graph.hnsw.levels))

    assert levels[1] == 800 - levels[2:].sum()
    assert 5 <= levels[2:].sum() <= 60, "one in 32 stands above the lowest level"


def test_without_faiss_the_extra_is_named_and_exact_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)

    with pytest.raises(MissingExtraError, match=r"faiss-cpu(.|\n)*kgedit\[rag\]"):
        HnswIndex()
    assert len(_filled("exact", _clustered(2))) == 2
