"""Recall and speed with which memories find the facts that a question needs, for growing numbers of facts.

    OMP_NUM_THREADS=1 python benchmarks/memory.py --facts 1000 10000 100000 1000000 --questions 250 --rag 1000

The memory contains a made-up world (benchmarks/made_up_facts.py). Two-hop questions need two of its facts, single ones
one: as exported, in other words of the catalogue, in words outside the catalogue, and with a persona's text around
these. "found" is the share of questions for which all needed facts are among the first rows; "rows" is the number of
rows taken; "kept" is the share accepted by the gate. The gate is off except for "kept" and for questions that should
return nothing. `rag`, for up to --rag facts, is evaluated with 2, 4 and 8 rows. Times are CPU seconds without those of
the embedder.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from made_up_facts import Chain, MadeUpWorld, make_world
from memory_tables import markdown
from retrieval_questions import Probing, questions_of, special_questions, unanswerable

from kgedit.editing.in_context.text_index import FactMemory, TextIndex
from kgedit.graph_memory.graph_memory import Finding, GraphMemory, Search
from kgedit.llm.embeddings import Embedder, Vectors, load_embedder
from kgedit.records.cases import Case

OPEN = Search(gate=0.0)
ADDED = 10_000


class Timed:
    """An embedder that embeds each text once, and records the time it took with and without this cache."""

    def __init__(self, embed: Embedder) -> None:
        self._embed, self._vectors = embed, dict[str, Vectors]()
        self._spent, self._embedded = 0.0, 0
        self.cached = 0.0

    @property
    def seconds(self) -> float:
        """CPU seconds spent, without those saved by the cache."""
        return self._spent

    @property
    def each(self) -> float:
        """Mean seconds per text."""
        return self._spent / max(1, self._embedded)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        started = time.process_time()
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            self._vectors |= dict(zip(missing, self._embed(missing), strict=True))
            self._embedded += len(missing)
        vectors = np.stack([self._vectors[text] for text in texts])
        self._spent += time.process_time() - started
        self.cached += self.each * (len(texts) - len(missing))
        return vectors


def measure_graph(world: MadeUpWorld, chains: Sequence[Chain], embed: Timed) -> dict[str, Any]:
    """Recall and costs of a graph memory with all facts."""
    memory = GraphMemory(embed)
    measured: dict[str, Any] = learn(memory, world)
    memory.find([chains[0].first.question])  # computes the vectors of the catalogue, once
    for name, (questions, needed) in questions_of(world, chains).items():
        findings, spent = timed(lambda asked=questions: memory.find(asked, OPEN), embed, len(questions))
        passing = [found.probability is not None and found.probability >= Search().gate for found in findings]
        measured[name] = {**share(findings, needed), **spent, "kept": round(_percent(passing), 1)}
    measured["should get nothing"] = {
        name: {"passes": kept(memory, questions), "questions": len(questions)}
        for name, questions in unanswerable(world, chains).items()
    }
    measured["special"] = {
        probing.name: special(memory, probing) for probing in special_questions(world, chains, seed=3)
    }
    measured["bytes_per_fact_misspelt"] = round(memory.nbytes / len(memory))
    measured["grow"] = grow(memory, world, measured["learn_seconds"])
    return measured


def learn(memory: GraphMemory, world: MadeUpWorld) -> dict[str, float]:
    """Store all facts of a world: seconds, and bytes per fact as counted by the columns and measured by the process."""
    gc.collect()
    before, seconds = resident(), 0.0
    for table in world.tables():
        started = time.process_time()
        memory.learn_table(table)
        seconds += time.process_time() - started
    gc.collect()
    return {
        "learn_seconds": round(seconds, 2),
        "bytes_per_fact": round(memory.nbytes / len(memory)),
        "resident_bytes_per_fact": round((resident() - before) / len(memory)),
    }


def resident() -> int:
    """Memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def grow(memory: GraphMemory, world: MadeUpWorld, rebuilding: float) -> dict[str, float]:
    """Seconds to add facts to a large memory, half of which supersede existing ones.

    Also the share found: new values now, old values as of the earlier date, and old values now, which must be none.
    """
    more = make_world(2 * ADDED, seed=9).table(np.arange(ADDED // 2), since="2023-01-01")
    known = np.random.default_rng(5).choice(len(world), size=min(ADDED // 2, len(world)), replace=False)
    changed = world.superseded(known)
    started = time.process_time()
    memory.learn_table(more)
    memory.learn_table(changed)
    adding = time.process_time() - started
    asked = changed.slice(0, 250).to_pylist()
    questions = [row["question"] for row in asked]
    before = [(row["case_id"].removesuffix(":later"),) for row in asked]
    after = [(row["case_id"],) for row in asked]
    held = share(memory.find([text.replace("?", " in June 2022?") for text in questions], OPEN), before)
    now = share(memory.find(questions, OPEN), after)
    superseded = share(memory.find(questions, OPEN), before)
    times = {"now": now["@8"], "in June 2022": held["@8"], "superseded told": superseded["@8"]}
    return {**times, "added": more.num_rows + changed.num_rows, "seconds": round(adding, 3), "rebuilding": rebuilding}


def special(memory: GraphMemory, probing: Probing) -> dict[str, float]:
    """Results for unusual questions, with the shipped gate."""
    findings = memory.find(probing.questions, as_of=probing.as_of)
    return {
        **share(findings, probing.needed),
        "questions": len(findings),
        "kept": round(_percent([bool(each.paths) for each in findings]), 1),
    }


def kept(memory: GraphMemory, questions: Sequence[str]) -> float:
    """Share of questions for which the memory with the shipped gate returns something, in %."""
    return round(_percent([bool(found.paths) for found in memory.find(questions)]), 1)


def _percent(answers: Sequence[bool]) -> float:
    return 100 * sum(answers) / max(1, len(answers))


def share(findings: Iterable[Finding], needed: Sequence[tuple[str, ...]]) -> dict[str, float]:
    """Share of questions whose needed facts are all among the first rows, in %, and the mean number of rows taken."""
    taken = [[row.case_ids for path in found.paths for row in path.rows] for found in findings]
    rows = [[*dict.fromkeys(each)] for each in taken]
    return {
        **{f"@{k}": _share([each[:k] for each in rows], needed) for k in (2, 4, 8)},
        "rows": round(sum(map(len, rows)) / max(1, len(rows)), 2),
    }


def _share(rows: Sequence[Sequence[tuple[str, ...]]], needed: Sequence[tuple[str, ...]]) -> float:
    hits = [
        set(case_ids) <= {case_id for row in each for case_id in row}
        for each, case_ids in zip(rows, needed, strict=True)
    ]
    return round(_percent(hits), 1)


def timed(find: Callable[[], list[Any]], embed: Timed, questions: int) -> tuple[list[Any], dict[str, float]]:
    """Results, and CPU milliseconds per question, with and without its embedding."""
    embedding, saved, started = embed.seconds, embed.cached, time.process_time()
    found = find()
    whole, embedding, saved = time.process_time() - started, embed.seconds - embedding, embed.cached - saved
    return found, {
        "ms": round(1000 * (whole - embedding) / questions, 2),
        "ms of embedding": round(1000 * (embedding + saved) / questions, 2),
    }


def measure_rag(world: MadeUpWorld, chains: Sequence[Chain], embed: Timed) -> dict[str, Any]:
    """Results, and CPU milliseconds per question, for the most similar questions."""
    memory = FactMemory(TextIndex(embed))
    cases: list[Case] = [world.case(index) for index in range(len(world))]
    started = time.process_time()
    memory.add(cases)
    measured: dict[str, Any] = {"learn_seconds": round(time.process_time() - started, 2)}
    for name, (questions, needed) in questions_of(world, chains).items():
        found, spent = timed(lambda asked=questions: memory.nearest(asked, k=8), embed, len(questions))
        rows = [[(memory.edits[index].case_id,) for index in own] for own in found]
        measured[name] = {f"@{k}": _share([each[:k] for each in rows], needed) for k in (2, 4, 8)} | spent
    return measured


def main() -> None:
    """Print one JSON object per number of facts, then the tables of the measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--rag", type=int, default=1000, help="largest memory that rag is measured at: it embeds all")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--reduced", action="store_true", help="embed in bfloat16 where the processor can")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    embed = Timed(load_embedder(given.embedder, device="cpu", reduced=given.reduced))
    results = []
    for facts in given.facts:
        world = make_world(facts)
        chains = world.chains(given.questions, seed=1)
        results.append({"facts": len(world), "graph": measure_graph(world, chains, embed)})
        print(json.dumps(results[-1], indent=1), flush=True)
        if given.json:
            given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for facts, result in zip(given.facts, results, strict=True):
        if facts <= given.rag:
            world = make_world(facts)
            result["rag"] = measure_rag(world, world.chains(given.questions, seed=1), embed)
            if given.json:
                given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(markdown(results))


if __name__ == "__main__":
    main()
