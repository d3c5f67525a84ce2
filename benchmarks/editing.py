"""Speed of answering and of editing, each against a stated baseline in the same run.

    OMP_NUM_THREADS=1 python benchmarks/editing.py --model smollm2-135m --questions 24 --edits 3

Answering: left-padded batches with a key-value cache, sorted by length, rows leaving when they end; against batch 1
without a cache, as Mirage's code decodes. Editing: FT-M with what lies below the edited block computed once; against
running the whole model at each step. Both sides must give the same answers and losses, or the script fails.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kgedit.editing import METHODS, fine_tuning
from kgedit.editing.replay import replay_above
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import decode_greedily
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model
from kgedit.llm.targets import Lines
from kgedit.records.cases import Case, Fact

PLACES = ["France", "Mongolia", "Peru", "Chad", "Norway", "Laos", "Cuba", "Ghana", "the Kingdom of Saudi Arabia"]
STEMS = ["What is the capital of {}?", "Who is the head of state of {} at the moment?", "Where is {}?"]


def questions(count: int) -> list[str]:
    """Questions of differing length."""
    return [STEMS[n % len(STEMS)].format(PLACES[n // len(STEMS) % len(PLACES)]) for n in range(count)]


def baseline_decode(model: LanguageModel, prompt: list[int], *, stop_ids: frozenset[int], limit: int) -> list[int]:
    """Batch 1, the whole text run again for every token."""
    ids = list(prompt)
    for _ in range(limit):
        logits = model.module(torch.tensor([ids], device=model.device), use_cache=False).logits
        ids.append(int(logits[0, -1].argmax()))
        if ids[-1] in stop_ids:
            break
    return ids[len(prompt) :]


def measure_answering(model: LanguageModel, count: int) -> None:
    """Questions per second of both ways of decoding."""
    context = read_context("instruction")
    prompts = sorted((model.encode(context.prompt(question)) for question in questions(count)), key=len)
    stops, limit = ("\n", "."), 50
    stop_ids = model.ids_containing(stops) | model.end_ids
    with torch.inference_mode():
        decode_greedily(model, prompts[:1], stops=stops, limits=[1])
        started = time.perf_counter()
        alone = [baseline_decode(model, prompt, stop_ids=stop_ids, limit=limit) for prompt in prompts]
        slow = time.perf_counter() - started
        started = time.perf_counter()
        together = decode_greedily(model, prompts, stops=stops, limits=[limit] * count)
        quick = time.perf_counter() - started
    same = sum(a == b for a, b in zip(alone, together, strict=True))
    print(
        f"answering: {count / quick:.2f} questions/s batched and cached, {count / slow:.2f} one by one without cache: ",
        end="",
    )
    print(f"{slow / quick:.1f} times; {same} of {count} answers token for token the same")
    if same < 0.9 * count:
        raise SystemExit("the two ways of decoding disagree")


@contextmanager
def whole_model(model: LanguageModel, layer: int, lines: Lines) -> Iterator[object]:
    """The baseline of replay_above: everything is run at each step."""
    del layer
    yield lambda: model.forward(lines.ids, lines.mask, last=lines.last).logits


def measure_editing(model: LanguageModel, count: int) -> None:
    """Seconds per FT-M edit, CPU time, with and without replay."""
    fact = Fact("Q1", "x", "P6", "mayor", "Q2", "y")
    cases = [
        Case(f"{n}", "t", "update", fact, question, "Maria Lindqvist", "", (), (), ())
        for n, question in enumerate(questions(count))
    ]
    seconds, losses = {}, {}
    for name, way in (("replay", replay_above), ("whole", whole_model)):
        fine_tuning.replay_above = way  # type: ignore[attr-defined]
        method = METHODS["ft_m"]
        editor = method(model, method.settings_type(stop_loss=0), asked=(), seed=0)
        started, losses[name] = time.process_time(), []
        for case in cases:
            losses[name].append(editor.apply([case]).loss)
            editor.restore()
        seconds[name] = (time.process_time() - started) / count
    fine_tuning.replay_above = replay_above
    print(
        f"ft_m: {seconds['replay']:.2f} CPU seconds per edit of 25 steps, {seconds['whole']:.2f} without replay: ",
        end="",
    )
    print(f"{seconds['whole'] / seconds['replay']:.1f} times; losses {losses['replay']} and {losses['whole']}")
    if any(abs(a - b) > 1e-3 for a, b in zip(losses["replay"], losses["whole"], strict=True)):
        raise SystemExit("the two ways of editing disagree")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--edits", type=int, default=3)
    options = parser.parse_args()
    model = load_model(options.model, device=options.device, dtype="float32")
    print(f"{options.model} on {options.device}, {torch.get_num_threads()} threads")
    measure_answering(model, options.questions)
    measure_editing(model, options.edits)


if __name__ == "__main__":
    main()
