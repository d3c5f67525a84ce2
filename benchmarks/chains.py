"""Chains of facts in a memory: share of questions with every fact of the chain, and facts that were not asked for.

    OMP_NUM_THREADS=1 python benchmarks/chains.py --memory pat.kgmemory --timestep pat_hops --as-of 2023-12-30
    OMP_NUM_THREADS=1 python benchmarks/chains.py --edits MQuAKE-CF.json [--memory pat.kgmemory]

A timestep exported with --hops 3 or 4 asks a memory of its newer snapshot. Of files in MQuAKE's form the edits are
learned first, and facts of chains that no edit changes. By number of facts: questions, share with all of them, facts
of other rows, and the median milliseconds of processor time of a question asked alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kgedit.clustered_statistics import clustered_interval
from kgedit.graph_memory.building import open_memory
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.retrieval import Search
from kgedit.llm.embeddings import load_embedder
from kgedit.records.cases import Case, Fact
from kgedit.timesteps.edit_files import EditFile
from kgedit.timesteps.timestep import Timestep

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ChainQuestion:
    """A question and the facts that it needs, as (subject label, PID)."""

    kind: str
    text: str
    needed: tuple[Key, ...]


def questions_of(cases: Iterable[Case]) -> list[ChainQuestion]:
    """Questions about single facts and chains; each text once."""
    found: dict[str, ChainQuestion] = {}
    for case in cases:
        for probe in case.probes:
            if probe.axis in ("update", "hop", "mhop") and all(fact.subject_label for fact in probe.facts):
                kind = f"{len(probe.facts)} facts"
                found.setdefault(probe.question, ChainQuestion(kind, probe.question, tuple(map(_key, probe.facts))))
    return list(found.values())


def _key(fact: Fact) -> Key:
    return fact.subject_label, fact.property


def learned_first(file: EditFile) -> list[Case]:
    """The facts of chains that no edit changes, as edits."""
    cases = list(file.cases())
    edited = {(case.fact.subject_label, case.fact.property) for case in cases}
    found: dict[Key, Case] = {}
    for case in cases:
        for probe in case.probes:
            if probe.axis == "hop" and _key(probe.facts[0]) not in edited:
                fact = probe.facts[0]
                found[_key(fact)] = Case(
                    f"known-{len(found)}", "known", "new", fact, probe.question, fact.object_label, probe.cloze
                )
    return list(found.values())


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--timestep", type=Path)
    source.add_argument("--edits", type=Path)
    parser.add_argument("--as-of", default="")
    parser.add_argument("--hops", type=int, default=Search().hops)
    parser.add_argument("--limit", type=int, help="questions of each length")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--reduced", action="store_true", help="embed in bfloat16 where the processor can")
    parser.add_argument(
        "--show", action="store_true", help="print questions without all of their facts, or with others"
    )
    given = parser.parse_args()
    if given.memory:
        memory = open_memory(given.memory, embedder=given.embedder, device="cpu")
    else:
        embed = load_embedder(given.embedder, device="cpu", reduced=given.reduced)
        memory = GraphMemory(embed, gate=read_gate(given.embedder), matcher=read_matcher(given.embedder))
    if given.edits:
        file = EditFile.open(given.edits)
        cases = list(file.cases())
        memory.learn([*learned_first(file), *cases])
    else:
        cases = list(Timestep.open(given.timestep).cases())
    groups: dict[str, list[ChainQuestion]] = defaultdict(list)
    for each in questions_of(cases):
        groups[each.kind].append(each)
    search = replace(Search(), hops=given.hops)
    print("| hops | questions | every fact, % | unasked facts | median ms |")
    print("| :-- | --: | --: | --: | --: |")
    for kind, several in sorted(groups.items()):
        print(_line(memory, kind, several[: given.limit], search, given.as_of, show=given.show))


def _line(
    memory: GraphMemory, kind: str, asked: Sequence[ChainQuestion], search: Search, as_of: str, *, show: bool
) -> str:
    memory.find([asked[0].text], search, as_of=as_of)  # the first question of a process loads the embedder
    found, unasked, took = [], [], []
    for each in asked:
        started = time.process_time()
        [finding] = memory.find([each.text], search, as_of=as_of)
        took.append(time.process_time() - started)
        got = {(memory.label_of(row.subject), row.relation) for path in finding.paths for row in path.rows}
        found.append(set(each.needed) <= got)
        unasked.append(len(got - set(each.needed)))
        if show and (not found[-1] or unasked[-1]):
            print(
                f"{'MORE' if found[-1] else 'MISS'} {each.text}\n     needs {each.needed}\n     got {got}",
                file=sys.stderr,
            )
    _, clusters = np.unique([each.needed[-1][1] for each in asked], return_inverse=True)
    ends = clustered_interval(np.array(found, dtype=np.float64), clusters.astype(np.int64))
    interval = "" if ends is None else f" ({100 * ends[0]:.0f}–{100 * ends[1]:.0f})"
    share, more, middle = 100 * np.mean(found), np.mean(unasked), 1000 * np.median(took)
    return f"| {kind} | {len(asked)} | {share:.1f}{interval} | {more:.2f} | {middle:.1f} |"


if __name__ == "__main__":
    main()
