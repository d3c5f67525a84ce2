"""Graph memory, plain retrieval by embeddings and BM25 on the everyday questions, in one run.

    OMP_NUM_THREADS=1 python benchmarks/everyday_baselines.py sample.kgmemory --questions sample --reduced

The baselines rank every row of the memory, written as its question and answer, and return the best one or three whose
score exceeds a threshold: the lowest that at most 3 % of the texts that need nothing pass, on the part tuned on.
All figures are of the other part. Milliseconds are wall-clock time per text without embedding the text.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from everyday import Outcome, ask_all, share_found
from everyday_questions import EverydayQuestion, read_nothing, read_questions
from numpy.typing import NDArray

from kgedit.graph_memory.dates import HOLDS
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.memory_file import read_memory_file
from kgedit.graph_memory.relations import SLOT
from kgedit.llm.embeddings import Vectors, load_embedder
from kgedit.wording.name_index import composed, words_of

PASSING = 0.03
Scorer = Callable[[EverydayQuestion], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the memory as a text."""

    fact: tuple[str, str]
    values: tuple[str, ...]
    text: str


class Remembering:
    """Embedder that keeps all vectors, so that the same texts cost nothing when time is measured."""

    def __init__(self, name: str, *, reduced: bool) -> None:
        self._embed = load_embedder(name, device="cpu", reduced=reduced)
        self._kept: dict[str, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(texts) if text not in self._kept]
        if missing:
            self._kept.update(zip(missing, self._embed(missing), strict=True))
        return np.stack([self._kept[text] for text in texts])


def rows_of(memory: GraphMemory) -> list[Row]:
    """Rows with a current value, whose text is the question and the values."""
    tables = {name: {key: column.to_pylist() for key, column in zip(table.column_names, table.columns, strict=True)}
              for name, table in memory.tables().items()}  # fmt: skip
    texts, things, values = tables["texts"]["text"], tables["things"], tables["values"]
    current: dict[int, list[str]] = {}
    for row, thing, label, until in zip(
        *(values[key] for key in ("row", "thing", "value_label", "until")), strict=True
    ):
        if until == HOLDS:
            current.setdefault(row, []).append(texts[things["label"][thing] if label < 0 else label])
    found = []
    columns = (tables["rows"][key] for key in ("subject", "relation", "wording"))
    for row, (subject, relation, wording) in enumerate(zip(*columns, strict=True)):
        if row in current:
            label = texts[things["label"][subject]]
            question = tables["wordings"]["wording"][wording].replace(SLOT, label)
            fact = (label, tables["relations"]["id"][relation])
            found.append(Row(fact, tuple(current[row]), f"{question} {'; '.join(current[row])}"))
    return found


def by_embedding(rows: Sequence[Row], embed: Remembering) -> Scorer:
    """Cosines of a question and all rows."""
    vectors = embed([row.text for row in rows])
    return lambda question: (vectors @ embed([question.text])[0]).astype(np.float64)


def by_bm25(rows: Sequence[Row], *, k1: float = 1.2, b: float = 0.75) -> Scorer:
    """BM25 (Robertson and Zaragoza 2009, The Probabilistic Relevance Framework) of a question and all rows."""
    counts = [Counter(word.text for word in words_of(composed(row.text))) for row in rows]
    lengths = np.array([sum(each.values()) for each in counts], dtype=np.float64)
    postings: dict[str, list[tuple[int, int]]] = {}
    for place, each in enumerate(counts):
        for word, count in each.items():
            postings.setdefault(word, []).append((place, count))

    def score(question: EverydayQuestion) -> NDArray[np.float64]:
        scores = np.zeros(len(rows))
        for word in {each.text for each in words_of(composed(question.text))} & postings.keys():
            places, found = np.array(postings[word]).T
            rarity = np.log(1 + (len(rows) - len(places) + 0.5) / (len(places) + 0.5))
            norm = k1 * (1 - b + b * lengths[places] / lengths.mean())
            scores[places] += rarity * found * (k1 + 1) / (found + norm)
        return scores

    return score


def outcomes(
    rows: Sequence[Row], score: Scorer, texts: Sequence[EverydayQuestion], k: int, least: float
) -> list[Outcome]:
    """The best k rows above a threshold, for each text."""
    found = []
    for question in texts:
        scores = score(question)
        best = np.argsort(-scores, kind="stable")[:k]
        facts = {rows[place].fact: rows[place].values for place in best.tolist() if scores[place] >= least}
        found.append(Outcome(question, facts, None))
    return found


def line(name: str, asked: Sequence[Outcome], nothing: Sequence[Outcome], milliseconds: float) -> str:
    """One row of the table."""
    two = [each for each in asked if each.question.is_two_hops]
    single = [each for each in asked if not each.question.is_two_hops]
    shares = [share_found(several, lambda each: each.found) for several in (single, two)]
    passed = share_found(nothing, lambda each: bool(each.facts))
    unasked = float(np.mean([each.unasked for each in asked]))
    return f"| {name} | {shares[0]} | {shares[1]} | {unasked:.2f} | {passed} | {milliseconds:.1f} |"


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--questions", choices=("sample", "pat"), required=True)
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--reduced", action="store_true", help="embed in bfloat16 where the processor can")
    given = parser.parse_args()
    embed = Remembering(given.embedder, reduced=given.reduced)
    memory = GraphMemory(embed, gate=read_gate(given.embedder), matcher=read_matcher(given.embedder))
    memory.load_tables(read_memory_file(given.memory).tables)
    asked, nothing = read_questions(given.questions), read_nothing(given.questions)
    tuned = [each for each in nothing if each.is_tuned_on]
    asked, nothing = ([each for each in several if not each.is_tuned_on] for several in (asked, nothing))
    print(f"| {given.questions}: {len(asked)} questions, {len(nothing)} other texts | single facts, % | two hops, % "
          "| unasked facts | other texts that get facts, % | ms |\n| :-- | --: | --: | --: | --: | --: |")  # fmt: skip
    ask_all(memory, [*asked, *nothing])  # vectors
    started = time.perf_counter()
    found = ask_all(memory, asked), ask_all(memory, nothing)
    print(line("graph memory", *found, 1000 * (time.perf_counter() - started) / (len(asked) + len(nothing))))
    rows = rows_of(memory)
    for name, score in (("embeddings", by_embedding(rows, embed)), ("BM25", by_bm25(rows))):
        tops = [float(score(each).max()) for each in tuned]
        least = float(np.quantile(tops, 1 - PASSING))
        for k in (1, 3):
            for limit, remark in ((least, ""), (-1.0, ", no threshold")):
                outcomes(rows, score, [*asked, *nothing], k, limit)
                started = time.perf_counter()
                found = outcomes(rows, score, asked, k, limit), outcomes(rows, score, nothing, k, limit)
                took = 1000 * (time.perf_counter() - started) / (len(asked) + len(nothing))
                print(line(f"{name}, best {k}{remark}", *found, took), flush=True)


if __name__ == "__main__":
    main()
