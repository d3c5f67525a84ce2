"""Recall of a memory on questions in everyday wording, and facts that no question asked for.

    OMP_NUM_THREADS=1 python benchmarks/everyday.py sample.kgmemory --questions sample --part measured

The questions are in tests/everyday. A question counts as found if all facts that it needs are among those returned with
the default gate. Facts of other rows are unasked. Intervals are clustered by the relation that is asked last.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from everyday_questions import UNDIVIDED, EverydayQuestion, read_nothing, read_questions

from kgedit.clustered_statistics import clustered_interval
from kgedit.graph_memory.building import open_memory
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.retrieval import Finding

Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a memory returned for one text.

    Attributes:
        question: The text.
        facts: Facts returned as (subject label, PID), with the labels of their values.
        probability: Probability before the gate; None without a known subject.
    """

    question: EverydayQuestion
    facts: dict[Fact, tuple[str, ...]]
    probability: float | None

    @property
    def found(self) -> bool:
        """Whether all needed facts were returned."""
        return all(any(fact in self.facts for fact in each) for each in self.question.needed)

    @property
    def valued(self) -> bool:
        """Whether the required value is among those of the needed facts."""
        asked = {fact for each in self.question.needed for fact in each}
        return any(self.question.value in values for fact, values in self.facts.items() if fact in asked)

    @property
    def unasked(self) -> int:
        """Number of facts that the question does not need."""
        return len(self.facts.keys() - {fact for each in self.question.needed for fact in each})


def label_facts(memory: GraphMemory, finding: Finding) -> dict[Fact, tuple[str, ...]]:
    """Facts of a finding as (subject label, PID), with the labels of their values."""
    return {
        (memory.label_of(row.subject), row.relation): tuple(value.label for value in row.values)
        for path in finding.paths
        for row in path.rows
    }


def ask_all(memory: GraphMemory, questions: Sequence[EverydayQuestion]) -> list[Outcome]:
    """Search the memory once per text."""
    findings = memory.find([question.turns for question in questions])
    return [
        Outcome(question, label_facts(memory, finding), finding.probability)
        for question, finding in zip(questions, findings, strict=True)
    ]


def rows_of(asked: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Lines of the table by kind: share found, share with the value, unasked facts."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for each in asked:
        group = "all two hops" if each.question.is_two_hops else "all single facts"
        groups[group].append(each)
        groups[each.question.kind].append(each)
        groups["all questions"].append(each)
    return [(kind, _line(several)) for kind, several in sorted(groups.items(), key=lambda one: one[0][:3] == "all")]


def _line(asked: Sequence[Outcome]) -> str:
    valued = [each.valued for each in asked if each.question.value]
    value = f"{100 * float(np.mean(valued)):.1f}" if valued else "–"
    return " | ".join((str(len(asked)), share_found(asked, lambda each: each.found), value, _mean_unasked(asked)))


def _mean_unasked(asked: Sequence[Outcome]) -> str:
    return f"{float(np.mean([each.unasked for each in asked])):.2f}"


def share_found(asked: Sequence[Outcome], count: Callable[[Outcome], bool]) -> str:
    """Share in %, with its 95 % interval clustered by the relation that is asked last, or by kind without one."""
    values = np.array([count(each) for each in asked], dtype=np.float64)
    keys = [min(each.question.needed[-1])[1] if each.question.needed else each.question.kind for each in asked]
    _, clusters = np.unique(keys, return_inverse=True)
    ends = clustered_interval(values, clusters.astype(np.int64))
    interval = "" if ends is None else f" ({100 * ends[0]:.0f}–{100 * ends[1]:.0f})"
    return f"{100 * values.mean():.1f}{interval}"


def report(name: str, asked: Sequence[Outcome], nothing: Sequence[Outcome]) -> str:
    """Both tables as Markdown."""
    lines = [f"| {name} | questions | found, % | value, % | unasked facts |", "| :-- | --: | --: | --: | --: |"]
    lines += [f"| {kind} | {line} |" for kind, line in rows_of(asked)]
    lines += ["", f"| {name}: should get nothing | texts | got facts, % |", "| :-- | --: | --: |"]
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for each in nothing:
        kinds[each.question.kind].append(each)
        kinds["all"].append(each)
    lines += [
        f"| {kind} | {len(few)} | {share_found(few, lambda each: bool(each.facts))} |" for kind, few in kinds.items()
    ]
    return "\n".join(lines)


def _show(asked: Sequence[Outcome], nothing: Sequence[Outcome]) -> None:
    for each in asked:
        if not each.found or each.unasked or (each.question.value and not each.valued):
            mark = "MISS" if not each.found else "VALUE" if each.question.value and not each.valued else "MORE"
            needed = "; ".join("|".join(":".join(fact) for fact in sorted(facts)) for facts in each.question.needed)
            chance = "none" if each.probability is None else f"{each.probability:.2f}"
            print(f"{mark} {chance} {each.question.turns} needs {needed} {each.question.value}\n     got {each.facts}")
    for each in nothing:
        if each.facts:
            print(f"PASS {each.probability:.2f} {each.question.kind}: {each.question.text}\n     got {each.facts}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--questions", choices=("sample", "pat", *UNDIVIDED), required=True)
    parser.add_argument("--part", choices=("tuned", "measured", "all"), default="measured")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--show", action="store_true", help="print what went wrong, of the part that is tuned on")
    given = parser.parse_args()
    part = "all" if given.questions in UNDIVIDED else given.part
    memory = open_memory(given.memory, embedder=given.embedder, device="cpu")
    chosen = [
        [one for one in several if part == "all" or one.is_tuned_on == (part == "tuned")]
        for several in (read_questions(given.questions), read_nothing(given.questions))
    ]
    started = time.perf_counter()
    asked, nothing = (ask_all(memory, several) for several in chosen)
    took = time.perf_counter() - started
    if given.show and part != "measured":
        _show(asked, nothing)
    print(report(f"{given.questions}, {part}", asked, nothing))
    print(json.dumps({"texts": len(asked) + len(nothing), "seconds": round(took, 1)}))


if __name__ == "__main__":
    main()
