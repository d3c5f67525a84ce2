"""Speed of searching stored facts, each method compared with a stated baseline in the same run.

    OMP_NUM_THREADS=1 python benchmarks/retrieval.py --vectors 100000 --queries 200

Uses made-up unit vectors around random centres, because questions of one relation are close to one another; embedding
is not timed. Exact search, which sorts only candidates, against a full sort of all scores: results must be equal, or
the script fails. HNSW against exact search, with the share of the exact K best that it finds: below 0.95 the script
fails. GRACE's codebook, in batches of 16 queries, against stacking its keys at every look-up; results must be equal.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from kgedit.editing.in_context.text_index import VECTOR_INDEXES, VectorIndex
from kgedit.editing.side_memory.codebook import Codebook
from kgedit.llm.embeddings import Vectors

Found = Sequence[Sequence[int | None]]


def made_up_vectors(count: int, width: int) -> Vectors:
    """One centre per hundred vectors; the distance from it is about the length of the centre."""
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((max(1, count // 100), width), dtype=np.float32)
    vectors = centres[draw.integers(0, len(centres), count)] + draw.standard_normal((count, width), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def by_full_sort(vectors: Vectors, queries: Vectors, k: int) -> Found:
    """Baseline: sort all scores of the memory, later entries first among equals."""
    later_first = -np.arange(len(vectors))
    return [np.lexsort((later_first, -scores))[:k].tolist() for scores in queries @ vectors.T]


def build(kind: str, vectors: Vectors) -> VectorIndex:
    """An index of all vectors, with the time to build it."""
    index = VECTOR_INDEXES[kind]()
    started = time.perf_counter()
    for start in range(0, len(vectors), 1000):
        index.add(vectors[start : start + 1000])
    seconds = time.perf_counter() - started
    print(f"{kind}: {len(vectors)} vectors of {vectors.shape[1]} added in {seconds:.1f} s", flush=True)
    return index


def timed(search: Callable[[], Found], queries: int) -> tuple[Found, float]:
    """Results, and milliseconds per query."""
    started = time.perf_counter()
    found = search()
    return found, 1000 * (time.perf_counter() - started) / queries


def look_up_codebook(entries: int, queries: int) -> None:
    """Look up keys in a codebook for SmolLM2's down-projections."""
    draw = torch.Generator().manual_seed(0)
    keys = torch.randn(entries, 1536, generator=draw)
    asked = keys[torch.randperm(entries, generator=draw)[:queries]]
    codebook, rows = Codebook(), list(keys)

    def place() -> Found:
        return [
            codebook.find_or_add(
                part, [(16 * number + row,) for row in range(len(part))], part[:, :576], radius=1.0, same=1e-3
            )
            for number, part in enumerate(keys.split(16))
        ]

    _, adding = timed(place, entries)
    found, quick = timed(lambda: [codebook.find(part).tolist() for part in asked.split(16)], queries)

    def by_stacking() -> Found:
        nearest = []
        for part in asked.split(16):
            known = torch.stack(rows)
            nearest.append([int(torch.linalg.vector_norm(known - query, dim=1).argmin()) for query in part])
        return nearest

    stacked, slow = timed(by_stacking, queries)
    print(
        f"codebook of {entries}: {adding:.2f} ms an entry placed; {quick:.2f} ms a query, {slow:.2f} by stacking: ",
        end="",
    )
    print(f"{slow / quick:.1f} times")
    if found != stacked:
        raise SystemExit("the codebook and stacking disagree")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--codebook", type=int, default=5000)
    options = parser.parse_args()
    look_up_codebook(options.codebook, options.queries)
    everything = made_up_vectors(options.vectors + options.queries, options.width)
    vectors, queries = everything[: options.vectors], everything[options.vectors :]

    exact = build("exact", vectors)
    sorted_, slow = timed(lambda: by_full_sort(vectors, queries, options.k), len(queries))
    found, quick = timed(lambda: exact.nearest(queries, k=options.k), len(queries))
    print(f"exact: {quick:.2f} ms a query, {slow:.2f} with a full sort: {slow / quick:.1f} times", flush=True)
    if found != sorted_:
        raise SystemExit("exact search and the full sort disagree")

    graph = build("hnsw", vectors)
    near, walked = timed(lambda: graph.nearest(queries, k=options.k), len(queries))
    hits = sum(len(set(a) & set(b)) for a, b in zip(near, found, strict=True))
    recall = hits / sum(map(len, found))
    print(f"hnsw: {walked:.2f} ms a query, {quick:.2f} exactly: {quick / walked:.1f} times; recall {recall:.3f}")
    if recall < 0.95:
        raise SystemExit("hnsw misses too many")


if __name__ == "__main__":
    main()
