"""Learns the gate of the graph memory, chooses its threshold, and prints what it keeps and lets pass.

    OMP_NUM_THREADS=1 python benchmarks/gate.py --write prompts/memory/gates.yaml

Three sets of relations without a common one: of the catalogue's relations that nothing is reported about, six in ten
fit the weights and four in ten choose the threshold (benchmarks/gate_questions.py); the curve is then printed of both
and of benchmarks/memory.py's made-up world, none of whose relations the fit has seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml
from gate_questions import Asked, HalfCatalogue, Pool, make_facts, make_pools, make_questions
from made_up_facts import make_world
from numpy.typing import NDArray
from retrieval_questions import questions_of, unanswerable
from sklearn.linear_model import LogisticRegression

from kgedit.llm.embeddings import Embedder, load_embedder
from kgedit.memory.gate import FEATURES, Gate, Logistic
from kgedit.memory.graph_memory import Finding, GraphMemory, Search

OPEN = Search(gate=0.0)
Numbers = NDArray[np.float64]


def ask(embed: Embedder, pool: Pool, subjects: int, seed: int) -> tuple[list[Asked], Numbers, NDArray[np.bool_]]:
    """Questions with their evidence, and whether the rows found hold what they need."""
    draw = np.random.default_rng(seed)
    unknown = frozenset(name for name in sorted(pool.rows) if draw.random() < 0.3)
    cases, of_subject = make_facts(pool, subjects, seed)
    memory = GraphMemory(embed, catalogue=HalfCatalogue(embed, unknown))
    memory.learn(cases)
    asked = list(make_questions(pool, of_subject, seed))
    findings = memory.find([each.text for each in asked], OPEN)
    return evidence(asked, findings)


def evidence(asked: Sequence[Asked], findings: Sequence[Finding]) -> tuple[list[Asked], Numbers, NDArray[np.bool_]]:
    """Of questions that name a subject; those of which other facts were found than needed are left out."""
    kept, rows, labels = [], [], []
    for question, finding in zip(asked, findings, strict=True):
        found = {case_id for path in finding.paths for row in path.rows for case_id in row.case_ids}
        if finding.evidence is not None and question.needed <= found:
            kept.append(question)
            rows.append([getattr(finding.evidence, name) for name in (*FEATURES, "hops")])
            labels.append(bool(question.needed))
    return kept, np.array(rows), np.array(labels)


def fit(rows: Numbers, labels: NDArray[np.bool_]) -> Gate:
    """Logistic regressions, both classes of equal weight."""
    short = rows[:, -1] == 1
    return Gate(_fit(rows[short, :-1], labels[short]), _fit(rows[~short, :-1], labels[~short]))


def _fit(rows: Numbers, labels: NDArray[np.bool_]) -> Logistic:
    scale = rows.std(axis=0) + 1e-9
    model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000).fit(rows / scale, labels)
    return Logistic(float(model.intercept_[0]), tuple((model.coef_[0] / scale).tolist()))


def shares(asked: Sequence[Asked], rows: Numbers, gate: Gate, threshold: float) -> dict[str, tuple[float, int]]:
    """By kind of question, how many in % pass, and how many there are."""
    passed: dict[str, list[bool]] = {}
    probabilities = probabilities_of(gate, rows)
    for question, probability in zip(asked, probabilities, strict=True):
        passed.setdefault(question.kind, []).append(bool(probability >= threshold))
    return {kind: (100 * sum(each) / len(each), len(each)) for kind, each in sorted(passed.items())}


def probabilities_of(gate: Gate, rows: Numbers) -> Numbers:
    """For each row of evidence."""
    short, long = (each.intercept + rows[:, :-1] @ np.array(each.weights) for each in (gate.short, gate.long))
    return 1 / (1 + np.exp(-np.where(rows[:, -1] == 1, short, long)))


def choose(asked: Sequence[Asked], rows: Numbers, gate: Gate, most: float) -> float:
    """The least threshold at which at most so many (%) of the questions about another relation pass."""
    candidates = np.linspace(0.02, 0.98, 97)
    for threshold in candidates.tolist():
        found = shares(asked, rows, gate, threshold)
        counted = [found[kind] for kind in found if kind.startswith("another relation")]
        if sum(share * count for share, count in counted) / sum(count for _, count in counted) <= most:
            return float(threshold)
    return float(candidates[-1])


def shifted(gate: Gate, threshold: float) -> Gate:
    """The same gate, with .5 for what was the threshold."""
    by = float(np.log(threshold / (1 - threshold)))
    return Gate(*(Logistic(each.intercept - by, each.weights) for each in (gate.short, gate.long)))


def made_up(embed: Embedder, gate: Gate, facts: int) -> tuple[list[Asked], Numbers, NDArray[np.bool_]]:
    """The questions of benchmarks/memory.py."""
    world = make_world(facts, seed=2)
    chains = world.chains(250, seed=2)
    memory = GraphMemory(embed, gate=gate)
    for table in world.tables():
        memory.learn_table(table)
    asked = [
        Asked(kind, text, frozenset(needed))
        for kind, (texts, several) in questions_of(world, chains).items()
        for text, needed in zip(texts, several, strict=True)
    ]
    asked += [Asked(kind, text, frozenset()) for kind, texts in unanswerable(world, chains).items() for text in texts]
    return evidence(asked, memory.find([each.text for each in asked], OPEN))


def curve(sets: Mapping[str, tuple[list[Asked], Numbers]], gate: Gate) -> str:
    """A table of what passes at each threshold."""
    thresholds = (0.1, 0.3, 0.5, 0.7, 0.9)
    lines = [
        f"| questions | number | {' | '.join(map(str, thresholds))} |",
        f"| :-- | --: | {' | '.join(['--:'] * len(thresholds))} |",
    ]
    for name, (asked, rows) in sets.items():
        by_threshold = [shares(asked, rows, gate, threshold) for threshold in thresholds]
        lines += [
            f"| {name}: {kind} | {count} | {' | '.join(f'{each[kind][0]:.1f}' for each in by_threshold)} |"
            for kind, (_, count) in by_threshold[0].items()
        ]
    return "\n".join(lines)


def main() -> None:
    """Fit, choose, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--subjects", type=int, default=400)
    parser.add_argument("--most", type=float, default=5.0, help="%% of questions about another relation that may pass")
    parser.add_argument("--facts", type=int, default=2000, help="of the made-up world")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--keep", type=Path, help="a file for the evidence, to look at")
    given = parser.parse_args()
    embed = load_embedder(given.embedder, device="cpu")
    to_fit, to_choose = make_pools(embed, seed=0)
    fitted = ask(embed, to_fit, given.subjects, seed=0)
    chosen = ask(embed, to_choose, given.subjects // 2, seed=1)
    gate = fit(*fitted[1:])
    gate = shifted(gate, choose(*chosen[:2], gate, given.most))
    reported = made_up(embed, gate, given.facts)
    print(yaml.safe_dump({"short": entry(gate.short), "long": entry(gate.long)}, sort_keys=False))
    print(curve({"fit": fitted[:2], "chosen with": chosen[:2], "reported": reported[:2]}, gate))
    if given.keep:
        np.savez(
            given.keep,
            **{
                f"{name}_{part}": value
                for name, several in (("fit", fitted), ("choose", chosen), ("made_up", reported))
                for part, value in (
                    ("rows", several[1]),
                    ("labels", several[2]),
                    ("kinds", np.array([each.kind for each in several[0]])),
                    ("texts", np.array([each.text for each in several[0]])),
                )
            },
        )
    if given.write:
        write(given.write, given.embedder, gate)


def entry(learnt: Logistic) -> dict[str, float]:
    """As it is written."""
    named = {"intercept": learnt.intercept, **dict(zip(FEATURES, learnt.weights, strict=True))}
    return {name: round(float(value), 4) for name, value in named.items()}


def write(path: Path, embedder: str, gate: Gate) -> None:
    """Put a gate into a file of gates, beside those of other embedders."""
    head = "".join(line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith("#"))
    gates = yaml.safe_load(path.read_text(encoding="utf-8"))["gates"]
    gates[embedder] = {"short": entry(gate.short), "long": entry(gate.long)}
    path.write_text(head + yaml.safe_dump({"gates": gates}, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
