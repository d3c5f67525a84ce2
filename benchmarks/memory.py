"""How well and how fast memories find the facts that a question needs, at growing numbers of facts.

    OMP_NUM_THREADS=1 python benchmarks/memory.py --facts 1000 10000 100000 --questions 250 --rag 10000

A made-up world (benchmarks/made_up_facts.py) is learned; two-hop questions ask for two of its facts, single ones for
one: as exported, in the catalogue's other words, in words of no catalogue, and with a persona's talk around these.
"both" is the share of two-hop questions of which both facts are among the rows taken; "rows" is how many were taken.
`rag`, up to --rag facts, is asked with 2, 4 and 8 rows. Times are processor seconds without those of the embedder.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from made_up_facts import Chain, MadeUpWorld, make_world, other_words, woven

from kgedit.editing.in_context.fact_memory import FactMemory
from kgedit.editing.in_context.text_index import TextIndex
from kgedit.llm.embeddings import Embedder, Vectors, load_embedder
from kgedit.memory.graph_memory import Finding, GraphMemory, Search
from kgedit.records.cases import Case

OPEN = Search(gate=-9.0, margin=9.0)


class Timed:
    """An embedder that tells how long it took."""

    def __init__(self, embed: Embedder) -> None:
        self._embed, self.seconds, self.texts = embed, 0.0, 0

    def __call__(self, texts: Sequence[str]) -> Vectors:
        started = time.process_time()
        vectors = self._embed(texts)
        self.seconds += time.process_time() - started
        self.texts += len(texts)
        return vectors


def wordings(world: MadeUpWorld, chains: Sequence[Chain]) -> dict[str, tuple[list[str], list[tuple[Case, ...]]]]:
    """Questions by how they are worded, each with the edits that it needs."""
    two = [(chain.first, chain.second) for chain in chains]
    one = [(chain.first,) for chain in chains]
    in_other_words = [other_words(*cases) for cases in two]
    alone = [other_words(*cases) for cases in one]
    return {
        "two hops, as exported": ([world.nested(chain) for chain in chains], two),
        "two hops, rephrase": ([world.nested(chain, "rephrase") for chain in chains], two),
        "two hops, other words": (in_other_words, two),
        "two hops, woven, other words": ([woven(text, i) for i, text in enumerate(in_other_words)], two),
        "one hop, update": ([chain.first.question for chain in chains], one),
        "one hop, rephrase": ([world.asked(chain.first) for chain in chains], one),
        "one hop, other words": (alone, one),
        "one hop, woven, other words": ([woven(text, i) for i, text in enumerate(alone)], one),
    }


def measure_graph(world: MadeUpWorld, chains: Sequence[Chain], embed: Timed) -> dict[str, Any]:
    """What a graph memory of all facts finds, and what it costs."""
    memory = GraphMemory(embed)
    tracemalloc.start()
    memory.learn(world.cases)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    started = time.process_time()
    again = GraphMemory(embed)
    again.learn(world.cases)
    learning = time.process_time() - started
    del again
    memory.find([chains[0].first.question])  # vectors of the catalogue, once
    measured: dict[str, Any] = {"bytes_per_fact": round(held / len(memory)), "learn_seconds": round(learning, 2)}
    for name, (questions, needed) in wordings(world, chains).items():
        measured[name] = {
            "both" if "two" in name else "found": share(memory.find(questions, OPEN), needed),
            **cost(lambda asked=questions: memory.find(asked, OPEN), embed, len(questions)),
            "kept by the gate": round(
                100 * sum(bool(found.paths) for found in memory.find(questions)) / len(questions), 1
            ),
        }
    measured["gate"] = gate(world, chains, memory)
    return measured


def gate(world: MadeUpWorld, chains: Sequence[Chain], memory: GraphMemory) -> dict[str, float]:
    """Share of questions that get something and should not."""
    told = {(case.fact.subject, case.fact.property) for case in world.cases}
    lacking = [
        world.templates[relation]["question"].replace("{subject}", chain.first.fact.subject_label)
        for chain in chains
        for relation in ("P37", "P38", "P106", "P1412", "P166", "P30")
        if (chain.first.fact.subject, relation) not in told
    ]
    strangers = [
        world.asked(chain.first, "question").replace(chain.first.fact.subject_label, f"Unheardof {index}")
        for index, chain in enumerate(chains)
    ]
    return {
        "other relation of a known subject": _passed(memory, lacking),
        "unknown subject": _passed(memory, strangers),
    }


def _passed(memory: GraphMemory, questions: list[str]) -> float:
    return round(100 * sum(bool(found.paths) for found in memory.find(questions)) / len(questions), 1)


def share(findings: Iterable[Finding], needed: Sequence[tuple[Case, ...]]) -> dict[str, float]:
    """In %, how often all that is needed is among the first rows, and the rows taken on average."""
    taken = [[row.case_ids for path in found.paths for row in path.rows] for found in findings]
    rows = [[*dict.fromkeys(each)] for each in taken]
    return {
        **{f"@{k}": _share([each[:k] for each in rows], needed) for k in (2, 4, 8)},
        "rows": round(sum(map(len, rows)) / len(rows), 2),
    }


def _share(rows: Sequence[Sequence[tuple[str, ...]]], needed: Sequence[tuple[Case, ...]]) -> float:
    hits = sum(
        {case.case_id for case in cases} <= {case_id for row in each for case_id in row}
        for each, cases in zip(rows, needed, strict=True)
    )
    return round(100 * hits / len(needed), 1)


def cost(find: Callable[[], object], embed: Timed, questions: int) -> dict[str, float]:
    """Milliseconds of the processor for a question, with and without its embedding."""
    embedding, started = embed.seconds, time.process_time()
    find()
    whole, embedding = time.process_time() - started, embed.seconds - embedding
    return {
        "ms": round(1000 * (whole - embedding) / questions, 2),
        "ms of embedding": round(1000 * embedding / questions, 2),
    }


def measure_rag(world: MadeUpWorld, chains: Sequence[Chain], embed: Timed) -> dict[str, Any]:
    """The same of the nearest questions."""
    memory = FactMemory(TextIndex(embed))
    started = time.process_time()
    memory.add(world.cases)
    measured: dict[str, Any] = {"learn_seconds": round(time.process_time() - started, 2)}
    for name, (questions, needed) in wordings(world, chains).items():
        rows = [[(memory.edits[index].case_id,) for index in found] for found in memory.nearest(questions, k=8)]
        measured[name] = {f"@{k}": _share([each[:k] for each in rows], needed) for k in (2, 4, 8)} | cost(
            lambda asked=questions: memory.nearest(asked, k=8), embed, len(questions)
        )
    return measured


def main() -> None:
    """Print one JSON object for each number of facts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--rag", type=int, default=1000, help="largest memory that rag is measured at: it embeds all")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    embed = Timed(load_embedder(given.embedder, device="cpu"))
    results = []
    for facts in given.facts:
        world = make_world(facts)
        chains = world.chains(given.questions, seed=1)
        result = {"facts": len(world.cases), "graph": measure_graph(world, chains, embed)}
        if facts <= given.rag:
            result["rag"] = measure_rag(world, chains, embed)
        results.append(result)
        print(json.dumps(result, indent=1), flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
