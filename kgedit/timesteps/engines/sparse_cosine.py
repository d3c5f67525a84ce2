"""Most similar entities: exact cosine of TF-IDF vectors, for many subjects at once and in bounded memory.

A document is an entity: its id, each (relation, object) pair and each of its objects (WikiFactDiff, section 4.4).
The weight of a feature is its count in the document times ``ln((1 + documents) / (1 + holders)) + 1``, rounded to
four digits. Dot products of such weights are integers that a double represents exactly, so they do not depend on the
order of summation; cosines are rounded to six digits, and ties go to the smaller document number.
The Cypher implementation is cypher/read/nearest_entities; tests compare both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kgedit.machine import usable_cores

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

WEIGHT_UNIT = 10_000
"""Weights are integers in ten-thousandths."""

COSINE_UNIT = 1_000_000
"""Cosines are integers in millionths."""

DOCUMENTS_AT_ONCE = 65_536
"""Documents of a block that `NeighbourIndex` is given."""

_QUERIES_AT_ONCE = 64
"""Their products with a block take at most 64 x 65,536 x 12 bytes, 50 MB, per thread."""

_TIGHTEN = 8
"""If a query has this many times n candidates, all but the n best are dropped."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """Most similar documents of some queries: three columns of equal length, by query, most similar first.

    Attributes:
        query: Index of the query.
        document: Index of the document.
        cosine: In units of 1 / COSINE_UNIT.
    """

    query: Numbers
    document: Numbers
    cosine: Numbers


def inverse_frequencies(holders: Numbers, documents: int) -> Floats:
    """Weight of features by the number of documents that have them, in units of 1 / WEIGHT_UNIT."""
    weights: Floats = np.rint(WEIGHT_UNIT * (np.log((1 + documents) / (1 + holders)) + 1))
    return weights


def weigh(counts: sparse.csr_array, weights: Floats) -> sparse.csr_array:
    """Convert counts of features, (documents, features), to weights."""
    return sparse.csr_array((counts.data * weights[counts.indices], counts.indices, counts.indptr), shape=counts.shape)


class NeighbourIndex:
    """Index of documents that finds those most similar to a query.

    Args:
        counts: Counts of features, (documents, features), in blocks of documents; each is read when the one before it
            is indexed.
        weights: From inverse_frequencies, (features,).
    """

    def __init__(self, counts: Iterable[sparse.csr_array], weights: Floats) -> None:
        self._blocks: list[_Block] = []
        start = 0
        for some in counts:
            self._blocks.append(_Block(weigh(some, weights), start))
            start += some.shape[0]

    def nearest(
        self, queries: sparse.csr_array, own: Numbers, *, n: int, threads: int | None = None
    ) -> Iterator[Nearest]:
        """Find the n documents most similar to each query, among those that share a feature with it.

        Args:
            queries: Weights of the queries, (queries, features), from weigh.
            own: Index of the document that is the query itself and is excluded; -1 if there is none.
            n: Maximum number of documents per query.
            threads: Number of blocks of queries processed in parallel; None means one per core.

        Yields:
            One result per block of queries, in their order.
        """
        starts = range(0, queries.shape[0], _QUERIES_AT_ONCE)
        workers = threads or usable_cores()
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
        lengths = _squared_lengths(queries)
        candidates = [_Candidates(n) for _ in own]
        for block in self._blocks:
            for row, (documents, products, others) in enumerate(block.products(queries)):
                other = documents != own[row]
                cosines = COSINE_UNIT * products[other] / np.sqrt(lengths[row] * others[other])
                # Half rounds up as in Cypher, where the same operations give the same bits.
                candidates[row].take(documents[other], np.floor(cosines + 0.5).astype(np.int64))
        best = [candidate.best() for candidate in candidates]
        sizes = [len(documents) for documents, _ in best]
        return Nearest(
            np.repeat(np.arange(first, first + len(own)), sizes),
            np.concatenate([documents for documents, _ in best]),
            np.concatenate([cosines for _, cosines in best]),
        )


class _Block:
    """Some documents, transposed: (features, documents)."""

    def __init__(self, weighed: sparse.csr_array, start: int) -> None:
        self._start = start
        self._turned = sparse.csr_array(weighed.T)
        self._lengths = _squared_lengths(weighed)

    def products(self, queries: sparse.csr_array) -> Iterator[tuple[Numbers, Floats, Floats]]:
        """Yield for each query the documents that share a feature, their dot products and their squared lengths."""
        product = queries @ self._turned
        lengths = self._lengths[product.indices]
        documents = product.indices.astype(np.int64) + self._start
        for start, end in itertools.pairwise(product.indptr.tolist()):
            yield documents[start:end], product.data[start:end], lengths[start:end]


class _Candidates:
    """The best documents of one query so far, plus a buffer of candidates."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._bound = 1  # lower bound of the n-th best cosine; 0 millionths means no shared feature
        self._documents: list[Numbers] = []
        self._cosines: list[Numbers] = []
        self._held = 0

    def take(self, documents: Numbers, cosines: Numbers) -> None:
        """Add documents with their cosines, in units of 1 / COSINE_UNIT."""
        if len(cosines) > self._n:
            self._bound = max(self._bound, int(np.partition(cosines, len(cosines) - self._n)[len(cosines) - self._n]))
        kept = np.flatnonzero(cosines >= self._bound)
        self._documents.append(documents[kept])
        self._cosines.append(cosines[kept])
        self._held += len(kept)
        if self._held > _TIGHTEN * self._n:
            best, cosines = self.best()
            self._documents, self._cosines, self._held = [best], [cosines], len(best)
            self._bound = int(cosines[-1])

    def best(self) -> tuple[Numbers, Numbers]:
        """The n best of the documents so far, most similar first, then by index."""
        if not self._documents:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        documents, cosines = np.concatenate(self._documents), np.concatenate(self._cosines)
        kept = np.flatnonzero(cosines >= self._bound)
        if len(kept) > self._n:
            bound = np.partition(cosines[kept], len(kept) - self._n)[len(kept) - self._n]
            above = kept[cosines[kept] > bound]
            level = np.sort(documents[kept[cosines[kept] == bound]])[: self._n - len(above)]
            documents = np.concatenate([documents[above], level])
            cosines = np.concatenate([cosines[above], np.full(len(level), bound)])
        else:
            documents, cosines = documents[kept], cosines[kept]
        order = np.lexsort((documents, -cosines))
        return documents[order], cosines[order]


def _squared_lengths(weighed: sparse.csr_array) -> Floats:
    squares: Floats = np.add.reduceat(np.append(weighed.data**2, 0.0), weighed.indptr[:-1])
    squares[np.diff(weighed.indptr) == 0] = 0
    return squares
