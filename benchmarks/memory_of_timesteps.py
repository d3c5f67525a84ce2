"""Recall of a memory of exported timesteps on their own questions, and the share of other questions it responds to.

    OMP_NUM_THREADS=1 python benchmarks/memory_of_timesteps.py kgedit-data/timesteps/20210104_20230227

The memory contains all cases of a timestep. By axis: share of questions whose needed facts are all among the first 2, 4
and 8 rows with the gate off, rows taken, and the share accepted by the gate, which should be small for locality.
"alias" replaces the subject's label in the update question with each of its other names (at most three).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from memory import OPEN, Timed, kept, share

from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.matching import read_matcher
from kgedit.llm.embeddings import load_embedder
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep


def asked(cases: list[Case]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Questions by axis, with the edits that they need."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for case in cases:
        for probe in case.probes:
            needed = (case.case_id,) if probe.second_case_id is None else (case.case_id, probe.second_case_id)
            found[probe.axis].append((probe.question, () if probe.axis == "locality" else needed))
        label = case.fact.subject_label
        for alias in case.subject_aliases[:3]:
            if label in case.question:
                found["alias"].append((case.question.replace(label, alias), (case.case_id,)))
    return found


def main() -> None:
    """Print one table per timestep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timesteps", type=Path, nargs="+")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--reduced", action="store_true", help="embed in bfloat16 where the processor can")
    parser.add_argument("--worded", action="store_true", help="without the relation matcher")
    parser.add_argument("--show", action="store_true", help="print questions that pass or close and should not")
    given = parser.parse_args()
    embed = Timed(load_embedder(given.embedder, device="cpu", reduced=given.reduced))
    for folder in given.timesteps:
        cases = list(Timestep.open(folder).cases())
        memory = GraphMemory(
            embed, gate=read_gate(given.embedder), matcher=None if given.worded else read_matcher(given.embedder)
        )
        memory.learn(cases)
        print(f"| {folder.name}: {len(cases)} cases | questions | @2 / 4 / 8 | rows | pass |")
        print("| :-- | --: | --: | --: | --: |")
        for axis, questions in asked(cases).items():
            texts = [text for text, _ in questions]
            found = share(memory.find(texts, OPEN), [needed for _, needed in questions])
            recall = "–" if axis == "locality" else " / ".join(f"{found[f'@{k}']:g}" for k in (2, 4, 8))
            print(f"| {axis} | {len(texts)} | {recall} | {found['rows']:g} | {kept(memory, texts):g} |")
            if given.show:
                wrong = [
                    text
                    for text, each in zip(texts, memory.find(texts), strict=True)
                    if bool(each.paths) == (axis == "locality")
                ]
                print(*wrong[:20], sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
