r"""Fits the gate behind the relation matcher on the parts of tests/everyday that are tuned on, and on whole sets.

    OMP_NUM_THREADS=1 python benchmarks/match_gate.py sample=sample.kgmemory pat=pat.kgmemory check=sample.kgmemory \
        tuning=sample.kgmemory tuning_pat=pat.kgmemory seventh=sample.kgmemory seventh_pat=pat.kgmemory

Accepting is right if the best path has the facts that the question needs, and wrong for texts that need none. Questions
about which the best path is wrong count as texts that need none. The threshold is shifted to 0.5.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import yaml
from everyday import label_facts
from everyday_questions import UNDIVIDED, EverydayQuestion, read_nothing, read_questions
from sklearn.linear_model import LogisticRegression

from kgedit.graph_memory.building import open_memory
from kgedit.graph_memory.gate import MATCH_FEATURES, MatchEvidence
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.retrieval import Search

_FILE = Path(__file__).parent.parent / "prompts" / "memory" / "match_gate.yaml"


def gather(memory: GraphMemory, questions: list[EverydayQuestion]) -> tuple[list[list[float]], list[bool]]:
    """Features of each text that names something known, and whether accepting it is right."""
    rows, labels = [], []
    for question, finding in zip(
        questions, memory.find([each.turns for each in questions], Search(gate=0.0)), strict=True
    ):
        if isinstance(finding.evidence, MatchEvidence):
            facts = label_facts(memory, finding)
            found = all(any(fact in facts for fact in each) for each in question.needed)
            rows.append([getattr(finding.evidence, name) for name in MATCH_FEATURES])
            labels.append(bool(question.needed) and found)
    return rows, labels


def main() -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memories", nargs="+", help="name=FILE, where the name is that of the questions")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--threshold", type=float, default=0.34, help="probability that becomes 0.5")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows: list[list[float]] = []
    labels: list[bool] = []
    for name, _, path in (each.partition("=") for each in given.memories):
        memory = open_memory(Path(path), embedder=given.embedder, device="cpu")
        texts = (*read_questions(name), *read_nothing(name))
        tuned = [each for each in texts if name in UNDIVIDED or each.is_tuned_on]
        more, right = gather(memory, tuned)
        rows, labels = rows + more, labels + right
    fit(np.array(rows), np.array(labels), threshold=given.threshold, write=given.write)


def fit(rows: np.ndarray, labels: np.ndarray, *, threshold: float, write: bool) -> None:
    """Fit a logistic regression, print what it accepts, and write it."""
    scale = rows.std(axis=0) + 1e-9
    model = LogisticRegression(C=0.5, max_iter=2000).fit(rows / scale, labels)
    chances = model.predict_proba(rows / scale)[:, 1]
    for limit in (0.3, 0.4, 0.5, 0.6, 0.7):
        kept, passed = (100 * float((chances[labels == wanted] >= limit).mean()) for wanted in (True, False))
        print(f"at {limit}: accepts {kept:.1f} % of {labels.sum()} right, {passed:.1f} % of {(~labels).sum()} wrong")
    shift = float(np.log(threshold / (1 - threshold)))
    gate = {"intercept": round(float(model.intercept_[0]) - shift, 4)}
    gate |= {name: round(float(weight), 4) for name, weight in zip(MATCH_FEATURES, model.coef_[0] / scale, strict=True)}
    print(gate)
    if write:
        head = "".join(line for line in _FILE.read_text().splitlines(keepends=True) if line.startswith("#"))
        _FILE.write_text(head + yaml.safe_dump({"gate": gate}, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
