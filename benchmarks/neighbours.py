"""Nearest entities for many subjects: subjects per second and peak memory, compared with a plain sparse product.

    python benchmarks/neighbours.py --subjects 100000

Entities have about ten objects, drawn from power laws: the most frequent is in a fifth of all entities, most are in
few. The baseline is the obvious scipy code: a block of subjects times the whole transposed matrix, converted to dense,
divided by the norms, with the best of each row selected. Both results are compared.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kgedit.timesteps.engines.sparse_cosine import (
    COSINE_UNIT,
    DOCUMENTS_AT_ONCE,
    NeighbourIndex,
    inverse_frequencies,
    weigh,
)
from kgedit.timesteps.wikifactdiff.cases import NEAREST_ENTITIES

RELATIONS = 40
HUB_RELATIONS = 3
_BASELINE_AT_ONCE = 100


def generated_features(entities: int, *, seed: int) -> sparse.csr_array:
    """Documents of a made-up world: each entity's id, its (relation, object) pairs and its objects."""
    random = np.random.default_rng(seed)
    each = random.integers(4, 17, entities)
    subject = np.repeat(np.arange(entities), each)
    relation = random.integers(0, RELATIONS, subject.size)
    # The first statements of an entity give its class, sex or country, which have few objects.
    nth = np.arange(subject.size) - np.repeat(np.cumsum(each) - each, each)
    relation = np.where(nth < HUB_RELATIONS, RELATIONS + nth, relation)
    # Rank r with a probability of about 1 / r, among few or many objects.
    reach = np.where(nth < HUB_RELATIONS, entities ** (0.3 * (nth % HUB_RELATIONS + 1)), entities)
    rank = np.floor(np.exp(random.random(subject.size) * np.log(reach))).astype(np.int64) - 1
    target = (rank * 7919 + relation * 104_729) % entities
    pair = np.unique(np.stack([subject, relation * entities + target]), axis=1)
    rows = np.concatenate([pair[0], pair[0], np.arange(entities)])
    columns = np.concatenate([entities + pair[1], pair[1] % entities, np.arange(entities)])
    used, columns = np.unique(columns, return_inverse=True)
    return sparse.csr_array(sparse.coo_array((np.ones(rows.size), (rows, columns)), (entities, used.size)))


def plain_nearest(vectors: sparse.csr_array, turned: sparse.csr_array, start: int, n: int) -> NDArray[np.int64]:
    """The n-th best cosine of each subject, computed the plain way."""
    norms = np.sqrt((vectors.multiply(vectors)).sum(axis=1))
    some = vectors[start : start + _BASELINE_AT_ONCE]
    cosines = (some @ turned).toarray() / norms / norms[start : start + some.shape[0], None]
    cosines[np.arange(some.shape[0]), np.arange(start, start + some.shape[0])] = 0
    best = np.argpartition(-cosines, n - 1, axis=1)[:, :n]
    return np.rint(COSINE_UNIT * np.take_along_axis(cosines, best, axis=1).min(axis=1)).astype(np.int64)


def main() -> None:
    """Measure, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subjects", type=int, default=100_000)
    parser.add_argument("--asked", type=int, help="only so many of them, as queries; all by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts = generated_features(given.subjects, seed=given.seed)
    holders = np.bincount(counts.indices, minlength=counts.shape[1])
    weights = inverse_frequencies(holders, given.subjects)
    vectors, asked = weigh(counts, weights), min(given.asked or given.subjects, given.subjects)
    print(f"{given.subjects:,} entities, {counts.nnz / given.subjects:.1f} features each, largest in {holders.max():,}")

    begun, worked = time.perf_counter(), time.process_time()
    starts = range(0, given.subjects, DOCUMENTS_AT_ONCE)
    index = NeighbourIndex((counts[start : start + DOCUMENTS_AT_ONCE] for start in starts), weights)
    built = time.perf_counter() - begun
    found, last = 0, {}
    for block in index.nearest(vectors[:asked], np.arange(asked), n=NEAREST_ENTITIES, threads=given.threads):
        found += len(block.query)
        last.update(zip(block.query.tolist(), block.cosine.tolist(), strict=True))  # the n-th best comes last
    took, cpu = time.perf_counter() - begun, time.process_time() - worked
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"kgedit: {asked:,} subjects in {took:.1f} s ({built:.1f} s to build), {cpu:.1f} s of CPU")
    print(
        f"        {asked / took:,.0f} subjects/s, {2 * asked / cpu:,.0f} on two idle cores by CPU time; {found:,} pairs"
    )
    print(f"        peak memory {memory:,.0f} MB")

    turned = sparse.csr_array(vectors.T)
    begun, worked = time.perf_counter(), time.process_time()
    bounds = np.concatenate(
        [plain_nearest(vectors, turned, start, NEAREST_ENTITIES) for start in (0, _BASELINE_AT_ONCE)]
    )
    plain, plain_cpu = time.perf_counter() - begun, time.process_time() - worked
    print(f"plain:  {len(bounds) / plain:,.0f} subjects/s, {2 * len(bounds) / plain_cpu:,.0f} on two cores by CPU time")
    print(
        f"ratio:  {asked / took / (len(bounds) / plain):.1f} by the clock, "
        f"{plain_cpu / len(bounds) / (cpu / asked):.1f} by CPU time"
    )
    different = sum(last[query] != bound for query, bound in enumerate(bounds.tolist()) if query in last)
    print(f"n-th best cosines that differ: {different} of {len(bounds)}")


if __name__ == "__main__":
    main()
