"""Most similar entities: equal to the plain product, however documents and queries are split into blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from kgedit.timesteps.engines import sparse_cosine
from kgedit.timesteps.engines.sparse_cosine import COSINE_UNIT, NeighbourIndex, inverse_frequencies, weigh

DOCUMENTS, FEATURES = 700, 300


@pytest.fixture(scope="module")
def counts() -> sparse.csr_array:
    """Documents with features of which a few are in most documents; the last document has none."""
    random = np.random.default_rng(7)
    features = np.minimum(random.zipf(1.4, (DOCUMENTS, 8)), FEATURES) - 1
    rows = np.repeat(np.arange(DOCUMENTS), 8)
    made = sparse.csr_array(sparse.coo_array((np.ones(rows.size), (rows, features.ravel())), (DOCUMENTS, FEATURES)))
    kept = made.toarray()
    kept[-1] = 0
    return sparse.csr_array(kept)


def plain(counts: sparse.csr_array, weights: np.ndarray, own: np.ndarray, n: int) -> list[tuple[int, int, int]]:
    """By hand: all cosines at once."""
    dense = weigh(counts, weights).toarray()
    norms = np.sqrt((dense**2).sum(axis=1))
    with np.errstate(invalid="ignore"):
        cosines = np.nan_to_num(dense @ dense.T / norms / norms[:, None])
    rounded = np.rint(COSINE_UNIT * cosines).astype(int)
    rounded[np.arange(len(own)), own] = 0
    rows = []
    for query, row in enumerate(rounded):
        best = sorted((-cosine, document) for document, cosine in enumerate(row.tolist()) if cosine > 0)[:n]
        rows += [(query, document, -cosine) for cosine, document in best]
    return rows


@pytest.mark.parametrize(
    ("documents_at_once", "queries_at_once", "n"), [(65_536, 64, 20), (90, 33, 20), (256, 700, 1), (100, 64, 700)]
)
@pytest.mark.slow
def test_it_is_the_plain_product_in_whatever_blocks(
    counts: sparse.csr_array, monkeypatch: pytest.MonkeyPatch, documents_at_once: int, queries_at_once: int, n: int
) -> None:
    monkeypatch.setattr(sparse_cosine, "_QUERIES_AT_ONCE", queries_at_once)
    weights = inverse_frequencies(np.bincount(counts.indices, minlength=FEATURES), DOCUMENTS)
    own = np.arange(DOCUMENTS)
    starts = range(0, DOCUMENTS, documents_at_once)
    index = NeighbourIndex((counts[start : start + documents_at_once] for start in starts), weights)
    blocks = list(index.nearest(weigh(counts, weights), own, n=n, threads=2))
    found = [
        (int(query), int(document), int(cosine))
        for block in blocks
        for query, document, cosine in zip(block.query, block.document, block.cosine, strict=True)
    ]
    assert found == plain(counts, weights, own, n)


def test_a_query_that_is_no_document_keeps_its_own_features_in_its_length() -> None:
    # One document with feature 0; the query has feature 0 and one that no document has.
    counts = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0]]))
    weights = inverse_frequencies(np.array([1, 0]), 2)
    query = weigh(sparse.csr_array(np.array([[1.0, 1.0]])), weights)
    (block,) = NeighbourIndex([counts], weights).nearest(query, np.array([-1]), n=5)
    assert block.document.tolist() == [0]
    assert block.cosine.tolist() == [round(COSINE_UNIT * weights[0] / np.hypot(*weights))]
