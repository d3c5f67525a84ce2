"""The entities most like others: exact cosine of TF-IDF vectors, for many subjects at once and in bounded memory.

A document is an entity: its id, each (relation, object) pair and each object it has (WikiFactDiff, section 4.4).
The weight of a feature is how often the document has it times ``ln((1 + documents) / (1 + holders)) + 1``, rounded to
four digits. Dot products of such weights are whole numbers that a double holds exactly, so they are the same in
whatever order they are summed; a cosine is told to six digits, and ties go to the smaller number of the document.
The same is in Cypher for people (cypher/read/nearest_triples); tests keep both equal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

WEIGHT_UNIT = 10_000
"""Weights are whole numbers of ten-thousandths."""

COSINE_UNIT = 1_000_000
"""Cosines are whole numbers of millionths."""

_QUERIES_AT_ONCE = 64
_DOCUMENTS_AT_ONCE = 65_536
"""One block of scores takes 64 x 65,536 doubles, 32 MB, for each thread."""

_MOST_HUBS = 128
_SAMPLE = 16
"""Every 16th document of a block gives a bound below the n-th best of all."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The most alike documents of some queries: three columns of equal length, by query, the likest first.

    Attributes:
        query: Number of the query.
        document: Number of the document.
        cosine: In units of 1 / COSINE_UNIT.
    """

    query: Numbers
    document: Numbers
    cosine: Numbers


def inverse_frequencies(holders: Numbers, documents: int) -> Floats:
    """Weight of a feature that so many documents have, in units of 1 / WEIGHT_UNIT."""
    weights: Floats = np.rint(WEIGHT_UNIT * (np.log((1 + documents) / (1 + holders)) + 1))
    return weights


def weigh(counts: sparse.csr_array, weights: Floats) -> sparse.csr_array:
    """Counts of features (documents x features) as weights."""
    return sparse.csr_array((counts.data * weights[counts.indices], counts.indices, counts.indptr), shape=counts.shape)


class NeighbourIndex:
    """Documents in which the likest ones of a query are found.

    Most features are rare, and their products are sparse; the few that many documents have (hubs) are multiplied as
    dense blocks. Together they are the whole product.

    Args:
        counts: How often a document has a feature (documents x features).
        weights: From inverse_frequencies, one for each feature.
    """

    def __init__(self, counts: sparse.csr_array, weights: Floats) -> None:
        weighed = weigh(counts, weights)
        self._documents, features = weighed.shape
        holders = np.bincount(weighed.indices, minlength=features)
        hubs = np.argsort(-holders, kind="stable")[:_MOST_HUBS]
        self._hubs = np.sort(hubs[holders[hubs] > self._documents / 256])
        self._inverse_norms = _inverse_norms(weighed)
        is_hub = np.zeros(features, bool)
        is_hub[self._hubs] = True
        self._blocks = [
            _Block(weighed[start : start + _DOCUMENTS_AT_ONCE], start, self._hubs, is_hub, self._inverse_norms)
            for start in range(0, self._documents, _DOCUMENTS_AT_ONCE)
        ]

    def nearest(
        self, queries: sparse.csr_array, own: Numbers, *, n: int, threads: int | None = None
    ) -> Iterator[Nearest]:
        """The n documents most like each query, of those that have anything in common with it.

        Args:
            queries: Weights of the queries (queries x features), as weigh gives them.
            own: The document that a query is itself, which is left out; -1 where it is none.
            n: How many.
            threads: How many blocks of queries are worked on at once; None for one for each core.

        Yields:
            A block of queries at a time, in their order.
        """
        starts = range(0, queries.shape[0], _QUERIES_AT_ONCE)
        workers = threads or os.cpu_count() or 1
        with ThreadPoolExecutor(workers) as pool:
            waiting = []
            for start in starts:
                some = slice(start, start + _QUERIES_AT_ONCE)
                waiting.append(pool.submit(self._search, queries[some], own[some], start, n))
                if len(waiting) > 2 * workers:
                    yield waiting.pop(0).result()
            for search in waiting:
                yield search.result()

    def _search(self, queries: sparse.csr_array, own: Numbers, first: int, n: int) -> Nearest:
        dense = queries[:, self._hubs].toarray()
        scale = COSINE_UNIT * _inverse_norms(queries)
        found: list[list[tuple[Numbers, Numbers]]] = [[] for _ in own]
        bounds = np.ones(len(own), np.int64)
        for block in self._blocks:
            cosines = block.cosines(queries, dense, scale)
            inside = (own >= block.start) & (own < block.start + cosines.shape[1])
            cosines[inside, own[inside] - block.start] = 0
            bounds = np.maximum(bounds, _lower_bounds(cosines, n))
            for row, bound in enumerate(bounds):
                columns = np.flatnonzero(cosines[row] >= bound)
                found[row].append((columns + block.start, cosines[row, columns]))
        best = [_best(parts, n) for parts in found]
        sizes = [len(documents) for documents, _ in best]
        return Nearest(
            np.repeat(np.arange(first, first + len(own)), sizes),
            np.concatenate([documents for documents, _ in best]),
            np.concatenate([cosines for _, cosines in best]),
        )


class _Block:
    """Some documents: their hubs as a dense matrix, all else as a sparse one, both turned round."""

    def __init__(
        self, weighed: sparse.csr_array, start: int, hubs: Numbers, is_hub: NDArray[np.bool_], inverse_norms: Floats
    ) -> None:
        self.start = start
        self._dense = np.ascontiguousarray(weighed[:, hubs].toarray().T)
        rare = weighed.copy()
        rare.data[is_hub[rare.indices]] = 0
        rare.eliminate_zeros()
        self._rare = sparse.csr_array(rare.T)
        self._inverse_norms = inverse_norms[start : start + weighed.shape[0]]

    def cosines(self, queries: sparse.csr_array, dense: Floats, scale: Floats) -> NDArray[np.int32]:
        """Cosines of the queries (rows) and these documents (columns), in units of 1 / COSINE_UNIT."""
        dots = dense @ self._dense
        rare = (queries @ self._rare).tocoo()
        dots[rare.row, rare.col] += rare.data
        dots *= self._inverse_norms
        dots *= scale[:, None]
        cosines: NDArray[np.int32] = np.rint(dots, out=dots).astype(np.int32)
        return cosines


def _inverse_norms(weighed: sparse.csr_array) -> Floats:
    squares = np.add.reduceat(np.append(weighed.data**2, 0.0), weighed.indptr[:-1])
    squares[np.diff(weighed.indptr) == 0] = 0
    return np.divide(1, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)


def _lower_bounds(cosines: NDArray[np.int32], n: int) -> Numbers:
    """For each row a cosine that the n-th best of it is not below: the n-th best of a part of it."""
    part = cosines[:, ::_SAMPLE]
    if part.shape[1] < n:
        return np.zeros(len(cosines), np.int64)
    return np.partition(part, part.shape[1] - n, axis=1)[:, part.shape[1] - n].astype(np.int64)


def _best(parts: list[tuple[Numbers, Numbers]], n: int) -> tuple[Numbers, Numbers]:
    documents = np.concatenate([documents for documents, _ in parts]).astype(np.int64)
    cosines = np.concatenate([cosines for _, cosines in parts]).astype(np.int64)
    if len(cosines) > n:
        bound = np.partition(cosines, len(cosines) - n)[len(cosines) - n]
        above = np.flatnonzero(cosines > bound)
        level = np.flatnonzero(cosines == bound)[: n - len(above)]
        kept = np.concatenate([above, level])
        documents, cosines = documents[kept], cosines[kept]
    order = np.lexsort((documents, -cosines))
    return documents[order], cosines[order]
