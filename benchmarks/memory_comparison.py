"""Compares the graph memory with what a team would use instead, up to the answers of a small model, in one run.

    OMP_NUM_THREADS=1 python benchmarks/memory_comparison.py sample.kgmemory --questions 60 --reduced

Of the everyday questions with one right value (tests/everyday, the part that is only measured), the first by hash are
asked. The rivals rank the memory's rows as sentences: embeddings and BM25 give the best three; selective contextual
reasoning (He, Song and Sun 2025) lets the model confirm each of the four nearest rows by "Yes" or "No", in a second
prompt. No rival has a threshold, so that they are at their best on questions; texts that need nothing get facts from
them, except where the model rejects all rows. The model answers greedily, with the facts as lines of the prompt; an
answer is right if it contains the value's label, and wrong if it contains another value of the same relation instead.
Milliseconds are wall-clock time to find the facts, with the question's embedding and the model's confirmation, without
the answer. Intervals are clustered by relation.

`--edited METHOD` edits the model with the current facts that the asked questions need and no others, one edit for each
row, in the chat template and the instruction of the questions, and asks it without facts.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from everyday import Outcome, ask_all, share_found
from everyday_baselines import Row, by_bm25, by_embedding, outcomes, rows_of
from everyday_questions import EverydayQuestion, read_nothing, read_questions

import kgedit
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.matching import read_matcher
from kgedit.graph_memory.memory_file import read_memory_file
from kgedit.llm.embeddings import Vectors, load_embedder
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model
from kgedit.wording.name_index import name_key

ANSWER = "{facts}Answer in a few words.\nQuestion: {question}"
CONFIRM = "Fact: {fact}\nQuestion: {question}\nDoes the fact help to answer the question? Answer Yes or No."
CANDIDATES, BEST, MOST_TOKENS, AT_ONCE = 4, 3, 24, 16

Finder = Callable[[Sequence[EverydayQuestion]], list[Outcome]]


@dataclass(frozen=True, slots=True)
class Answerer:
    """A model with a chat template."""

    model: LanguageModel

    def answers(self, prompts: Sequence[str]) -> list[str]:
        """Greedy answers."""
        found: list[str] = []
        for start in range(0, len(prompts), AT_ONCE):
            inputs = self._inputs(prompts[start : start + AT_ONCE])
            with torch.inference_mode():
                made = self.model.module.generate(
                    **inputs,
                    do_sample=False,
                    max_new_tokens=MOST_TOKENS,
                    pad_token_id=self.model.tokenizer.eos_token_id,
                )
            texts = self.model.tokenizer.batch_decode(made[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            found += [text.strip() for text in texts]
        return found

    def confirms(self, prompts: Sequence[str]) -> list[bool]:
        """Whether "Yes" is more probable than "No" as the first token."""
        yes, no = (self.model.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("Yes", "No"))
        with torch.inference_mode():
            logits = self.model.module(**self._inputs(prompts)).logits[:, -1]
        return (logits[:, yes] > logits[:, no]).tolist()

    def _inputs(self, prompts: Sequence[str]) -> dict[str, torch.Tensor]:
        tokenizer = self.model.tokenizer
        texts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
            )
            for prompt in prompts
        ]
        tokenizer.padding_side = "left"
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        return dict(tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False))


def contextual(rows: Sequence[Row], score: Callable[[EverydayQuestion], np.ndarray], answerer: Answerer) -> Finder:
    """Selective contextual reasoning: the nearest rows that the model confirms."""
    by_fact = {row.fact: row for row in rows}

    def find(questions: Sequence[EverydayQuestion]) -> list[Outcome]:
        found = []
        for near in outcomes(rows, score, questions, CANDIDATES, -np.inf):
            facts = list(near.facts)
            text = near.question.text
            kept = answerer.confirms([CONFIRM.format(fact=by_fact[fact].text, question=text) for fact in facts])
            chosen = {fact: near.facts[fact] for fact, keep in zip(facts, kept, strict=True) if keep}
            found.append(Outcome(near.question, chosen, None))
        return found

    return find


def prompt_of(each: Outcome, questions: dict[tuple[str, str], str]) -> str:
    """The question after its facts."""
    lines = [f"{questions[fact]} {'; '.join(values)}\n" for fact, values in each.facts.items() if fact in questions]
    return ANSWER.format(facts=f"Facts:\n{''.join(lines)}\n" if lines else "", question=each.question.text)


def line(
    name: str, find: Finder, asked: Sequence[EverydayQuestion], nothing: Sequence[EverydayQuestion], judge: Judge
) -> str:
    """One row of the table."""
    started = time.perf_counter()
    found, passed = find(asked), find(nothing)
    took = 1000 * (time.perf_counter() - started) / (len(asked) + len(nothing))
    single = [each for each in found if not each.question.is_two_hops]
    two = [each for each in found if each.question.is_two_hops]
    cells = [
        *(share_found(several, lambda each: each.found) for several in (single, two)),
        f"{float(np.mean([each.unasked for each in found])):.2f}",
        share_found(passed, lambda each: bool(each.facts)),
        *judge.judged(found),
        f"{took:.0f}",
    ]
    return f"| {name} | {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks a model, and judges its answers.

    Attributes:
        answerer: The model.
        questions: Question of each fact.
        values: Normalized labels of all values of each relation.
    """

    answerer: Answerer
    questions: dict[tuple[str, str], str]
    values: dict[str, frozenset[str]]

    def judged(self, found: Sequence[Outcome]) -> tuple[str, str]:
        """Shares of right answers, and of answers that contain a wrong value."""
        texts = self.answerer.answers([prompt_of(each, self.questions) for each in found])
        keys = {each.question.turns: f" {name_key(text)} " for each, text in zip(found, texts, strict=True)}

        def is_right(each: Outcome) -> bool:
            return name_key(each.question.value) in keys[each.question.turns]

        def is_wrong(each: Outcome) -> bool:
            relations = {relation for _, relation in each.question.needed[-1]}
            others = {value for relation in relations for value in self.values[relation]}
            asked = f" {name_key(' '.join(each.question.turns))} "
            stated = (f" {value} " for value in others if f" {value} " not in asked)
            return not is_right(each) and any(value in keys[each.question.turns] for value in stated)

        return share_found(found, is_right), share_found(found, is_wrong)


def edited_line(
    method: str,
    rows: Sequence[Row],
    asked: Sequence[EverydayQuestion],
    nothing: Sequence[EverydayQuestion],
    judge: Judge,
) -> str:
    """The row of the edited model, which is asked without facts; the model is restored."""
    model = judge.answerer.model
    cases = [
        kgedit.make_case(
            prompt=ANSWER.format(facts="", question=judge.questions[row.fact]),
            subject=row.fact[0],
            target=row.values[0],
        )
        for row in rows
    ]
    plain = [prompt_of(Outcome(each, {}, None), judge.questions) for each in nothing]
    before = judge.answerer.answers(plain)
    started = time.perf_counter()
    with kgedit.edit(model, method, cases=cases, contexts=("chat",)) as editor:
        took = time.perf_counter() - started
        own = judge.answerer.answers([case.question for case in cases])
        kept = sum(name_key(row.values[0]) in name_key(text) for row, text in zip(rows, own, strict=True))
        cells = judge.judged([Outcome(each, {}, None) for each in asked])
        changed = sum(one != other for one, other in zip(before, judge.answerer.answers(plain), strict=True))
        failed = len(editor.failures)
    print(f"{method}: {len(cases)} edits in {took:.0f} s, {failed} failed; {kept} answered in their own words; "
          f"{changed} of {len(nothing)} answers to other texts changed", flush=True)  # fmt: skip
    return f"| edited by `{method}` | – | – | – | – | {' | '.join(cells)} | 0 |"


def values_of(memory: GraphMemory) -> dict[str, frozenset[str]]:
    """Normalized labels of all values of each relation, ended ones included."""
    tables = memory.tables()
    names, things = tables["relations"]["id"].to_pylist(), tables["things"]["id"].to_pylist()
    relations = tables["rows"]["relation"].to_pylist()
    found: dict[str, set[str]] = defaultdict(set)
    for row, thing in zip(*(tables["values"][name].to_pylist() for name in ("row", "thing")), strict=True):
        found[names[relations[row]]].add(name_key(memory.label_of(things[thing])))
    return {relation: frozenset(several) for relation, several in found.items()}


def first_by_hash(texts: Sequence[EverydayQuestion], most: int) -> list[EverydayQuestion]:
    """At most `most` texts of the measured part."""
    measured = [each for each in texts if not each.is_tuned_on and len(each.turns) == 1]
    return sorted(measured, key=lambda each: hashlib.sha256(each.text.encode()).digest())[:most]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--edited", action="append", default=[], metavar="METHOD", help="edit the model; repeat")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--reduced", action="store_true", help="embed in bfloat16 where the processor can")
    given = parser.parse_args()
    embed = load_embedder(given.embedder, device="cpu", reduced=given.reduced)
    memory = GraphMemory(embed, gate=read_gate(given.embedder), matcher=read_matcher(given.embedder))
    memory.load_tables(read_memory_file(given.memory).tables)
    asked = first_by_hash([each for each in read_questions("sample") if each.value], given.questions)
    nothing = first_by_hash(read_nothing("sample"), given.questions // 2)
    rows = rows_of(memory)
    answerer = Answerer(load_model(given.model, device="cpu", dtype="float32"))
    judge = Judge(
        answerer,
        {row.fact: row.text.removesuffix(" " + "; ".join(row.values)) for row in rows},
        values_of(memory),
    )
    near, words = by_embedding(rows, _Embedding(embed)), by_bm25(rows)
    ask_all(memory, asked[:1])  # the index of names and the catalogue's vectors
    finders: dict[str, Finder] = {
        "no facts": lambda texts: [Outcome(each, {}, None) for each in texts],
        "graph memory": lambda texts: ask_all(memory, texts),
        f"embeddings, best {BEST}": lambda texts: outcomes(rows, near, texts, BEST, -np.inf),
        f"BM25, best {BEST}": lambda texts: outcomes(rows, words, texts, BEST, -np.inf),
        "selective contextual reasoning": contextual(rows, near, answerer),
    }
    print(f"| {len(asked)} questions, {len(nothing)} other texts, {given.model} | single facts, % | two hops, % "
          "| unasked facts | other texts that get facts, % | right answers, % | wrong values, % | ms |\n"
          "| :-- | --: | --: | --: | --: | --: | --: | --: |")  # fmt: skip
    for name, find in finders.items():
        print(line(name, find, asked, nothing, judge), flush=True)
    needed = {fact for each in asked for several in each.needed for fact in several}
    known = [row for row in rows if row.fact in needed]
    for method in given.edited:
        print(edited_line(method, known, asked, nothing, judge), flush=True)


class _Embedding:
    """The embedder in the form of everyday_baselines: nothing is kept, so that time is that of new texts."""

    def __init__(self, embed: Callable[[Sequence[str]], Vectors]) -> None:
        self._embed = embed

    def __call__(self, texts: Sequence[str]) -> Vectors:
        return self._embed(list(texts))


if __name__ == "__main__":
    main()
