"""Fits the gate of the graph memory, chooses its threshold, and prints the shares that it accepts.

    OMP_NUM_THREADS=1 python benchmarks/gate.py --aliases aliases.property.en.tsv.gz --write prompts/memory/gates.yaml

There are three sets of relations without overlap (benchmarks/gate_questions.py). Two of them evaluate each other: the
threshold and the printed curve come from gates fitted on the other set. The gate that is written is fitted on both. The
third set, and the made-up world of benchmarks/memory.py, use relations that no fit has seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml
from gate_questions import Asked, HalfCatalogue, Pool, make_facts, make_pools, make_questions, read_aliases
from made_up_facts import make_world
from numpy.typing import NDArray
from retrieval_questions import questions_of, unanswerable
from sklearn.linear_model import LogisticRegression

from kgedit.clustered_statistics import clustered_interval
from kgedit.graph_memory.gate import FEATURES, Gate, Logistic
from kgedit.graph_memory.graph_memory import Finding, GraphMemory, Search
from kgedit.llm.embeddings import Embedder, load_embedder

OPEN = Search(gate=0.0)
THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
WORLD = "made-up world"
Numbers = NDArray[np.float64]
Evaluated = tuple[list[Asked], Numbers, NDArray[np.bool_]]
"""Questions, their evidence, and whether the memory has the facts they need."""


def ask(embed: Embedder, pool: Pool, subjects: int, seed: int) -> Evaluated:
    """Questions with their evidence, and whether the rows found contain the facts they need."""
    draw = np.random.default_rng(seed)
    unknown = frozenset(name for name in sorted(pool.rows) if draw.random() < 0.3)
    cases, of_subject = make_facts(pool, subjects, seed)
    memory = GraphMemory(embed, catalogue=HalfCatalogue(embed, unknown))
    memory.learn(cases)
    asked = list(make_questions(pool, of_subject, seed))
    findings = memory.find([each.text for each in asked], OPEN)
    return evidence(asked, findings)


def evidence(asked: Sequence[Asked], findings: Sequence[Finding]) -> Evaluated:
    """Evidence of questions that name a subject; questions are left out if the facts found are not those needed."""
    kept, rows, labels = [], [], []
    for question, finding in zip(asked, findings, strict=True):
        found = {case_id for path in finding.paths for row in path.rows for case_id in row.case_ids}
        if finding.evidence is not None and question.needed <= found:
            kept.append(question)
            rows.append([getattr(finding.evidence, name) for name in (*FEATURES, "hops")])
            labels.append(bool(question.needed))
    return kept, np.array(rows), np.array(labels)


def fit(rows: Numbers, labels: NDArray[np.bool_]) -> Gate:
    """Fit logistic regressions with balanced classes."""
    short = rows[:, -1] == 1
    return Gate(_fit(rows[short, :-1], labels[short]), _fit(rows[~short, :-1], labels[~short]))


def _fit(rows: Numbers, labels: NDArray[np.bool_]) -> Logistic:
    scale = rows.std(axis=0) + 1e-9
    model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000).fit(rows / scale, labels)
    return Logistic(float(model.intercept_[0]), tuple((model.coef_[0] / scale).tolist()))


def probabilities_of(gate: Gate, rows: Numbers) -> Numbers:
    """Probability for each row of evidence."""
    short, long = (each.intercept + rows[:, :-1] @ np.array(each.weights) for each in (gate.short, gate.long))
    found: Numbers = 1 / (1 + np.exp(-np.where(rows[:, -1] == 1, short, long)))
    return found


def held_out(first: Evaluated, second: Evaluated) -> tuple[list[Asked], Numbers]:
    """Questions of two sets, with probabilities by the gate fitted on the other set."""
    probabilities = [probabilities_of(fit(*other[1:]), own[1]) for own, other in ((first, second), (second, first))]
    return [*first[0], *second[0]], np.concatenate(probabilities)


def choose(asked: Sequence[Asked], probabilities: Numbers, most: float) -> float:
    """Lowest threshold that at most the given percentage of the questions about another relation passes."""
    absent = [
        probability
        for question, probability in zip(asked, probabilities.tolist(), strict=True)
        if question.kind.startswith("another relation")
    ]
    return float(np.clip(np.quantile(absent, 1 - most / 100), 0.02, 0.98))


def shifted(gate: Gate, threshold: float) -> Gate:
    """The same gate, rescaled so that the threshold becomes 0.5."""
    by = float(np.log(threshold / (1 - threshold)))
    return Gate(*(Logistic(each.intercept - by, each.weights) for each in (gate.short, gate.long)))


def made_up(embed: Embedder, gate: Gate, facts: int) -> Evaluated:
    """Questions of benchmarks/memory.py."""
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


def curve(sets: Mapping[str, tuple[Sequence[Asked], Numbers]]) -> str:
    """Table of the shares accepted at each threshold, and at 0.5 with the 95 % range over resampled relations.

    Questions about one relation are worded alike, so relations are resampled instead of questions.
    """
    lines = [
        f"| questions | number | relations | {' | '.join(map(str, THRESHOLDS))} | interval at 0.5 |",
        f"| :-- | --: | --: | {' | '.join(['--:'] * len(THRESHOLDS))} | --: |",
    ]
    for name, (asked, probabilities) in sets.items():
        kinds: dict[str, list[int]] = {}
        for place, question in enumerate(asked):
            kinds.setdefault(_merged(question.kind) if name != WORLD else question.kind, []).append(place)
        for kind, places in sorted(kinds.items()):
            own, relations = probabilities[places], [asked[place].relation for place in places]
            shares = [f"{100 * (own >= threshold).mean():.1f}" for threshold in THRESHOLDS]
            count = len(set(relations)) if any(relations) else "–"
            interval = _interval(own >= THRESHOLDS[2], relations) if any(relations) else "–"
            lines.append(f"| {name}: {kind} | {len(places)} | {count} | {' | '.join(shares)} | {interval} |")
    return "\n".join(lines)


def _merged(kind: str) -> str:
    return kind.removesuffix(", woven").replace(", other words", "")


def _interval(passed: NDArray[np.bool_], relations: Sequence[str]) -> str:
    """95 % interval of the share accepted, in %, clustered by relation."""
    _, place = np.unique(relations, return_inverse=True)
    ends = clustered_interval(passed.astype(np.float64), place.astype(np.int64))
    return "–" if ends is None else "–".join(f"{100 * end:.0f}" for end in ends)


def main() -> None:
    """Fit, choose, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--subjects", type=int, default=160)
    parser.add_argument("--most", type=float, default=10.0, help="%% of questions about another relation that pass")
    parser.add_argument("--facts", type=int, default=2000, help="of the made-up world")
    parser.add_argument("--aliases", type=Path, help="aliases.property.en.tsv.gz of kgtk's property catalogue (CC0)")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--reduced", action="store_true", help="embed in bfloat16 where the processor can")
    given = parser.parse_args()
    embed = load_embedder(given.embedder, device="cpu", reduced=given.reduced)
    pools = make_pools(embed, read_aliases(given.aliases), seed=0)
    first, second, third = (ask(embed, pool, given.subjects, seed) for seed, pool in enumerate(pools))
    asked, probabilities = held_out(first, second)
    threshold = choose(asked, probabilities, given.most)
    gate = shifted(fit(*(np.concatenate(parts) for parts in zip(first[1:], second[1:], strict=True))), threshold)
    reported = made_up(embed, gate, given.facts)
    print(yaml.safe_dump({"short": entry(gate.short), "long": entry(gate.long)}, sort_keys=False))
    odds = probabilities / (1 - probabilities) * (1 - threshold) / threshold
    print(
        curve(
            {
                "held out": (asked, odds / (1 + odds)),
                "third set": (third[0], probabilities_of(gate, third[1])),
                WORLD: (reported[0], probabilities_of(gate, reported[1])),
            }
        )
    )
    if given.write:
        write(given.write, given.embedder, gate)


def entry(learnt: Logistic) -> dict[str, float]:
    """The gate as written to the file."""
    named = {"intercept": learnt.intercept, **dict(zip(FEATURES, learnt.weights, strict=True))}
    return {name: round(float(value), 4) for name, value in named.items()}


def write(path: Path, embedder: str, gate: Gate) -> None:
    """Write a gate into a file of gates, next to those of other embedders."""
    head = "".join(line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith("#"))
    gates = yaml.safe_load(path.read_text(encoding="utf-8"))["gates"]
    gates[embedder] = {"short": entry(gate.short), "long": entry(gate.long)}
    path.write_text(head + yaml.safe_dump({"gates": gates}, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
