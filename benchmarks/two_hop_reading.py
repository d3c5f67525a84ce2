"""Effect of the text before a two-hop question: nothing, the nearest facts, both hops, both hops linked.

    OMP_NUM_THREADS=1 python benchmarks/two_hop_reading.py kgedit-data/timesteps/20211230_20231230 --questions 120

Edits are few and rarely form chains, so all known facts of a timestep are used as edits in addition to its cases.
Questions combine two of them in one sentence, evenly distributed over the pairs of relations. The same questions are
evaluated with each layout; no weights change. Prints the share of correct answers with its 95 % interval (Wilson), and
with --show the answers.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path

import numpy as np

from kgedit.editing.editor import Prefix, PrefixPart
from kgedit.editing.in_context.prompts import prefix_of
from kgedit.editing.in_context.text_index import FactMemory, TextIndex
from kgedit.graph_memory.graph_memory import GraphMemory, Search
from kgedit.llm.contexts import read_context
from kgedit.llm.embeddings import Embedder, load_embedder
from kgedit.llm.generation import Question, answer_freely
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.teaching import Lesson, choose_lesson
from kgedit.metrics.matching import comparable
from kgedit.records.cases import Case, KnownFact
from kgedit.runs.presets import choose_demonstrations
from kgedit.timesteps.timestep import Timestep
from kgedit.wording.templates import template_table

Layout = Callable[[Sequence[str]], list[Prefix]]


@dataclass(frozen=True, slots=True)
class TwoHops:
    """A question with the two edits that answer it."""

    text: str
    first: Case
    second: Case


def edits_of(timestep: Timestep) -> list[Case]:
    """Cases of a timestep, and its known facts about other subjects as edits."""
    cases = [replace(case, probes=()) for case in timestep.cases()]
    edited = {(case.fact.subject, case.fact.property) for case in cases}
    known = [fact for fact in timestep.known_facts() if (fact.fact.subject, fact.fact.property) not in edited]
    return cases + [_edit(fact, timestep.name) for fact in known]


def _edit(known: KnownFact, timestep: str) -> Case:
    fact = known.fact
    return Case(
        case_id=f"{fact.subject}:{fact.property}:{fact.object}",
        timestep=timestep,
        tag="new",
        fact=fact,
        question=known.question,
        answer=known.answer,
        cloze=known.cloze,
        old_objects=(),
        old_answers=(),
        probes=(),
    )


def chains(cases: Sequence[Case], count: int, seed: int) -> list[TwoHops]:
    """Pairs of edits whose objects have one answer, taken in turn from each pair of relations."""
    templates = {row["property"]: row for row in template_table().to_pylist() if not row["subject_class"]}
    rows: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        rows[case.fact.subject, case.fact.property].append(case)
    alone = [several[0] for several in rows.values() if len(several) == 1 and several[0].fact.property in templates]
    of_subject: dict[str, list[Case]] = defaultdict(list)
    for case in alone:
        of_subject[case.fact.subject].append(case)
    by_pair: dict[tuple[str, str], list[TwoHops]] = defaultdict(list)
    for first in alone:
        for second in of_subject.get(first.fact.object, ()):
            pair = first.fact.property, second.fact.property
            answers = {first.fact.subject_label, first.answer, second.answer}
            if pair[0] != pair[1] and len(answers) == 3:
                inner = templates[pair[0]]["phrase"].replace("{subject}", first.fact.subject_label)
                by_pair[pair].append(TwoHops(templates[pair[1]]["question"].replace("{subject}", inner), first, second))
    draw = np.random.default_rng(seed)
    turns = [[several[place] for place in draw.permutation(len(several))] for _, several in sorted(by_pair.items())]
    ordered = [several[turn] for turn in range(max(map(len, turns))) for several in turns if turn < len(several)]
    return ordered[:count]


def layouts(cases: Sequence[Case], embed: Embedder) -> dict[str, Layout]:
    """Texts prepended to questions, by name."""
    nearest, memory = FactMemory(TextIndex(embed)), GraphMemory(embed)
    nearest.add(cases)
    memory.learn(cases)

    def of_rag(questions: Sequence[str]) -> list[Prefix]:
        return [
            Prefix(tuple(_pair(nearest.edits[index].question, nearest.edits[index].answer) for index in found[::-1]))
            for found in nearest.nearest(questions, k=8)
        ]

    def of_graph(questions: Sequence[str], *, bridged: bool) -> list[Prefix]:
        return [prefix_of(found.paths, bridged=bridged) for found in memory.find(questions, Search())]

    return {
        "none": lambda questions: [Prefix() for _ in questions],
        "rag": of_rag,
        "graph_rag": lambda questions: of_graph(questions, bridged=False),
        "graph_rag, second hop named": lambda questions: of_graph(questions, bridged=True),
    }


def _pair(question: str, answer: str) -> PrefixPart:
    return PrefixPart("", pair=(question, answer), ending="\n")


def wilson(right: int, count: int) -> str:
    """A share in % with its 95 % interval."""
    z, share = 1.96, right / count
    middle, half = share + z * z / (2 * count), z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    low, high = ((middle + sign * half) / (1 + z * z / count) for sign in (-1, 1))
    return f"{100 * share:.1f} ({100 * max(0.0, low):.0f}–{100 * high:.0f})"


def rows_of(
    model_name: str,
    preset_name: str,
    asked: Sequence[TwoHops],
    ahead: dict[str, list[Prefix]],
    known: list[KnownFact],
    *,
    dtype: str,
    lesson: Lesson,
) -> Iterator[dict[str, object]]:
    """All answers of a model under a preset; "tiny" is trained on a lesson."""
    model, preset = load_model(model_name, device="cpu", dtype=dtype, lesson=lesson), PRESETS[preset_name]
    context = read_context(preset.context).for_model(model.chat if preset.context.startswith("chat") else None)
    context = context.with_demonstrations(choose_demonstrations(known, preset))
    for layout, prefixes in ahead.items():
        prompts = [
            context.prompt(one.text, prefix.worded(context)) for one, prefix in zip(asked, prefixes, strict=True)
        ]
        for one, prompt, text in zip(
            asked, prompts, answer_freely(model, [Question(prompt, "") for prompt in prompts], preset), strict=True
        ):
            said, gold = comparable(text, one.second.answer)
            bridge = comparable(text, one.first.answer)[1]
            right = gold == said if preset.metric == "exact_match" else f" {gold} " in f" {said} "
            both = f" {one.first.answer}\n" in prompt and f" {one.second.answer}\n" in prompt
            kind = "right" if right else "first hop" if f" {bridge} " in f" {said} " else "other"
            yield {
                "model": model_name, "preset": preset_name, "layout": layout, "question": one.text, "both": both,
                "answer": text, "gold": one.second.answer, "first": one.first.answer, "kind": kind,
            }  # fmt: skip


def main() -> None:
    """Run the evaluation, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timestep", type=Path)
    parser.add_argument("--models", nargs="+", default=["smollm2-135m", "tiny"])
    parser.add_argument("--presets", nargs="+", default=["few_shot", "wild_chat"])
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--dtype", default="float32", help="of the model: float32 or bfloat16")
    parser.add_argument("--show", type=Path, help="file for all answers, JSON lines")
    given = parser.parse_args()
    timestep = Timestep.open(given.timestep)
    cases = edits_of(timestep)
    asked = chains(cases, given.questions, seed=0)
    used = {case.fact.subject for one in asked for case in (one.first, one.second)}
    known = [fact for fact in timestep.known_facts() if fact.fact.subject not in used]
    texts = [one.text for one in asked]
    ahead = {
        name: layout(texts)
        for name, layout in layouts(cases, load_embedder(given.embedder, device="cpu", reduced=True)).items()
    }
    print(f"{len(cases)} edits, {len(asked)} questions")
    print("| model | preset | ahead | both facts | right, % (95 %) | first hop instead |", flush=True)
    print("| :-- | :-- | :-- | --: | --: | --: |")
    for model in given.models:
        # Models without a chat template have no chat presets.
        for preset in [name for name in given.presets if model != "tiny" or "chat" not in name]:
            answers: dict[str, list[dict[str, object]]] = defaultdict(list)
            taught = choose_lesson(
                list(timestep.cases()), timestep.known_facts(), asked=[read_context(PRESETS[preset].context)]
            )
            for row in rows_of(model, preset, asked, ahead, known, dtype=given.dtype, lesson=taught):
                answers[str(row["layout"])].append(row)
                if given.show:
                    with given.show.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row, ensure_ascii=False) + "\n")
            for layout, rows in answers.items():
                kinds = [row["kind"] for row in rows]
                cells = (
                    *(model, preset, layout, f"{sum(bool(row['both']) for row in rows)} of {len(rows)}"),
                    *(wilson(kinds.count("right"), len(rows)), f"{100 * kinds.count('first hop') / len(rows):.0f} %"),
                )
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
