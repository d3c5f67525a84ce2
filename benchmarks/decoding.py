"""Throughput of answering by preset, compared with batch size 1 without a cache in the same run.

    OMP_NUM_THREADS=1 python benchmarks/decoding.py --model smollm2-135m --questions 420 --alone 16 --rounds 1

Questions are sampled from the probes of a file of edits (QAEdit if available). The baseline decodes like the papers'
code: one question at a time, running the whole text again for each token; `light` (--light) does so with logits of only
the last token. Under teacher forcing it takes one pass for each measurement of a text: match ratio, P of the new
answer, P of each old answer. kgedit's side is the backend used in runs, including tokenization. In each round, kgedit
answers all questions and the baseline its share of the first --alone ones, alternating, measured in CPU seconds of one
thread, so that other work on the machine matters little.

Texts must be identical token by token, except for ties: where they first differ, the baseline's logits of both tokens
must be within rounding error, or the script fails.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from kgedit.llm.backends.contract import TransformersBackend
from kgedit.llm.contexts import Context
from kgedit.llm.decoding import end_of_answer
from kgedit.llm.generation import PresetQuestion, Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.replies import truncate
from kgedit.records.runs import Preset
from kgedit.runs.presets import asked_contexts
from kgedit.timesteps.edit_files import EditFile
from kgedit.timesteps.known_facts import sample_facts

EDITS = Path(__file__).resolve().parents[2] / "shared" / "data" / "editing_sets" / "QAEdit_inter_1k.json"
TIE = 1e-3
"""Maximum difference of two logits that counts as a tie; logits here are of the order of 20."""


@dataclass(frozen=True)
class Drawn:
    """A question with its correct answer and the answers before the edit."""

    text: str
    gold: str
    old: tuple[str, ...]


@dataclass
class Measured:
    """CPU seconds and answers, by question."""

    seconds: dict[str, float] = field(default_factory=lambda: {"base": 0.0, "light": 0.0, "ours": 0.0})
    asked: dict[str, int] = field(default_factory=lambda: {"base": 0, "light": 0, "ours": 0})
    texts: dict[str, dict[int, str]] = field(default_factory=lambda: {"base": {}, "light": {}, "ours": {}})
    tokens: dict[str, dict[int, int]] = field(default_factory=lambda: {"base": {}, "light": {}, "ours": {}})
    widest_tie: float = 0.0
    differing: int = 0

    def rate(self, way: str) -> float:
        """Questions per CPU second."""
        return self.asked[way] / self.seconds[way] if self.asked[way] else float("nan")

    def length(self, way: str) -> float:
        """Mean number of tokens per answer."""
        return sum(self.tokens[way].values()) / len(self.tokens[way])


def draw(edits: Path, count: int, seed: int) -> list[Drawn]:
    """Probes of cases, in random order."""
    probes = [
        Drawn(probe.question, probe.answers[0], case.old_answers if probe.axis in ("update", "rephrase") else ())
        for case in EditFile.open(edits).cases()
        for probe in case.probes
    ]
    random.Random(seed).shuffle(probes)
    return probes[:count]


def prompts_of(model: LanguageModel, preset: Preset, drawn: Sequence[Drawn]) -> list[Question]:
    """Prompts as sent to the model."""
    context: Context = asked_contexts([preset], sample_facts())[preset.name].for_model(model.chat)
    forced = preset.generation == "teacher_forcing"
    return [Question(context.prompt(one.text), one.gold, one.old if forced else ()) for one in drawn]


def decode_alone(model: LanguageModel, question: Question, preset: Preset, *, light: bool) -> list[int]:
    """Baseline with batch size 1, running the whole text again for every token."""
    ids = model.encode(question.prompt)
    start, end = len(ids), end_of_answer(model, preset.truncation)
    for _ in range(preset.max_new_tokens):
        given = torch.tensor([ids], device=model.device)
        options = {"logits_to_keep": 1} if light else {}
        ids.append(int(model.module(given, use_cache=False, **options).logits[0, -1].argmax()))
        if ids[-1] in end.stop_ids or (end.is_over and end.is_over(ids[start:])):
            break
    return ids[start:]


def feed_alone(model: LanguageModel, question: Question, *, light: bool) -> list[int]:
    """One pass for the match ratio and, unless `light`, one for the probability of each answer."""
    prompt = model.encode(question.prompt)
    best: list[int] = []
    for number, answer in enumerate((question.gold,) if light else (question.gold, question.gold, *question.old)):
        target = model.encode_target(answer, after=question.prompt)
        logits = model.module(torch.tensor([prompt + target], device=model.device), use_cache=False).logits[0]
        predicted = logits[len(prompt) - 1 : -1]
        if number == 0:
            best = predicted.argmax(-1).tolist()
        else:
            predicted.float().log_softmax(-1)[torch.arange(len(target)), torch.tensor(target)].mean().exp().item()
    return best


def alone(model: LanguageModel, question: Question, preset: Preset, *, light: bool) -> tuple[str, int]:
    """Text and tokens generated by the baseline."""
    if preset.generation == "teacher_forcing":
        ids = feed_alone(model, question, light=light)
        return model.decode(ids).strip(), len(ids)
    ids = decode_alone(model, question, preset, light=light)
    return truncate(model.decode(ids), preset.truncation), len(ids)


def timed(measured: Measured, way: str, count: int, work: Callable[[], None]) -> None:
    """Add the CPU time of a block."""
    started = time.process_time()
    work()
    measured.seconds[way] += time.process_time() - started
    measured.asked[way] += count


def measure(model: LanguageModel, preset: Preset, drawn: Sequence[Drawn], *, options: argparse.Namespace) -> Measured:
    """Measure both ways, alternating."""
    measured, questions, backend = Measured(), prompts_of(model, preset, drawn), TransformersBackend(model)

    def run_ours() -> None:
        asked = [PresetQuestion(question, preset) for question in questions]
        for batch in backend.plan(asked):
            replies = backend.ask([asked[index] for index in batch])
            measured.texts["ours"] |= {index: reply.text for index, reply in zip(batch, replies, strict=True)}
            measured.tokens["ours"] |= {index: reply.new_tokens for index, reply in zip(batch, replies, strict=True)}

    def run_alone(way: str, share: Sequence[int]) -> None:
        for index in share:
            text, tokens = alone(model, questions[index], preset, light=way == "light")
            measured.texts[way][index] = text
            measured.tokens[way][index] = tokens

    ask(model, questions[:2], preset)  # model properties that are determined only once
    for number in range(options.rounds):
        share = range(number, options.alone, options.rounds)
        timed(measured, "base", len(share), lambda share=share: run_alone("base", share))
        timed(measured, "ours", len(questions), run_ours)
        if options.light:
            timed(measured, "light", len(share), lambda share=share: run_alone("light", share))
    for index, question in enumerate(questions[: options.alone]):
        if measured.texts["base"][index] != measured.texts["ours"][index]:
            measured.differing += 1
            measured.widest_tie = max(measured.widest_tie, gap(model, question, preset))
    return measured


def gap(model: LanguageModel, question: Question, preset: Preset) -> float:
    """Minimum margin of the best token over the second best along the baseline's answer."""
    if preset.generation == "teacher_forcing":
        prompt, said = model.encode(question.prompt), model.encode_target(question.gold, after=question.prompt)
    else:
        prompt, said = model.encode(question.prompt), decode_alone(model, question, preset, light=False)
    logits = model.module(torch.tensor([prompt + said], device=model.device), use_cache=False).logits[0]
    two = logits[len(prompt) - 1 : -1].topk(2).values
    return float((two[:, 0] - two[:, 1]).min())


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--edits", type=Path, default=EDITS)
    parser.add_argument("--questions", type=int, default=420)
    parser.add_argument("--alone", type=int, default=16, help="questions that the baseline is asked")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--light", action="store_true", help="the lighter baseline too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--preset", action="append", choices=list(PRESETS))
    options = parser.parse_args()
    model = load_model(options.model, device=options.device, dtype="float32")
    drawn = draw(options.edits, options.questions, options.seed)
    print(f"{options.model}, {torch.get_num_threads()} threads, {len(drawn)} questions of {options.edits.name}")
    print("| preset | answer's tokens | baseline q/s | ours q/s | ours tokens/s | ratio | light ratio | same texts |")
    print("| :-- | --: | --: | --: | --: | --: | --: | --: |")
    wrong = []
    for name in options.preset or ["synthetic", "wild", "wild_chat", "few_shot", "question_only"]:
        with torch.inference_mode():
            found = measure(model, PRESETS[name], drawn, options=options)
        base, light, ours = (found.rate(way) for way in ("base", "light", "ours"))
        print(
            f"| {name} | {found.length('base'):.1f}, {found.length('ours'):.1f} | {base:.2f} | {ours:.2f} | "
            f"{ours * found.length('ours'):.0f} | {ours / base:.1f} | {ours / light:.1f} | "
            f"{options.alone - found.differing} of {options.alone} |",
            flush=True,
        )
        if found.widest_tie > TIE:
            wrong.append(f"{name}: texts differ where the best token leads by {found.widest_tie:.4f}")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
