"""Speed of answering and editing, each compared with a stated baseline in the same run.

    OMP_NUM_THREADS=1 python benchmarks/editing.py --model smollm2-135m --questions 24 --edits 3
    OMP_NUM_THREADS=1 python benchmarks/editing.py --method rome --method memit --edits 10
    OMP_NUM_THREADS=1 python benchmarks/editing.py --edits 4 --runs 5 --peer ../EasyEdit --peer-python ../env/bin/python

Answering: left-padded batches with a key-value cache, sorted by length, with finished rows dropped; compared with batch
size 1 without a cache, as in Mirage's code. Editing: FT-M with everything below the edited block computed once;
compared with running the whole model at each step. Both sides must give the same answers and losses, or the script
fails. Then every method that changes the model, on CounterFact edits, one at a time or in batches of AT_ONCE. The loss
of UltraEdit and MEND is the one before the update; next to it is the share of answer tokens correct under teacher
forcing afterwards.

With `--peer` none of this is run. Instead, kgedit's methods and those of the user's checkout of EasyEdit alternate at
equal settings, and the table shows the speedup and whether both did the same (`side_by_side.py`). Without it, no figure
is compared with EasyEdit's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from side_by_side import compare_all

from kgedit.editing import METHODS, make_editor
from kgedit.editing.fine_tuning import editor as fine_tuning
from kgedit.editing.locate_then_edit.subject_prompts import subject_problem
from kgedit.llm.contexts import read_context
from kgedit.llm.decoding import Decoding, decode
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.training import TargetBatch
from kgedit.progress import ignore
from kgedit.records.cases import Case, Fact
from kgedit.timesteps.edit_files import EditFile

EDITS = Path(__file__).resolve().parents[2] / "shared" / "data" / "editing_sets" / "counterfact-edit.json"

PLACES = ["France", "Mongolia", "Peru", "Chad", "Norway", "Laos", "Cuba", "Ghana", "the Kingdom of Saudi Arabia"]
STEMS = ["What is the capital of {}?", "Who is the head of state of {} at the moment?", "Where is {}?"]


def questions(count: int) -> list[str]:
    """Questions of different lengths."""
    return [STEMS[n % len(STEMS)].format(PLACES[n // len(STEMS) % len(PLACES)]) for n in range(count)]


def baseline_decode(model: LanguageModel, prompt: list[int], *, stop_ids: frozenset[int], limit: int) -> list[int]:
    """Baseline with batch size 1, running the whole text again for every token."""
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
        decode(model, [Decoding(prompts[0], stop_ids, 1)], most_tokens=1 << 20)
        started = time.perf_counter()
        alone = [baseline_decode(model, prompt, stop_ids=stop_ids, limit=limit) for prompt in prompts]
        slow = time.perf_counter() - started
        started = time.perf_counter()
        together = decode(model, [Decoding(prompt, stop_ids, limit) for prompt in prompts], most_tokens=1 << 20)
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
def whole_model(model: LanguageModel, layer: int, targets: TargetBatch) -> Iterator[object]:
    """Baseline of forward_above: runs everything at each step."""
    del layer
    yield lambda: model.forward(targets.ids, targets.mask, last=targets.last).logits


def measure_editing(model: LanguageModel, count: int) -> None:
    """CPU seconds per FT-M edit, with and without it."""
    cases = question_cases(count)
    seconds, losses = {}, {}
    for name, way in (("above", forward_above), ("whole", whole_model)):
        fine_tuning.forward_above = way  # type: ignore[attr-defined]
        editor = make_editor("ft_m", model, {"stop_loss": 0})
        started, losses[name] = time.process_time(), []
        for case in cases:
            losses[name].append(editor.apply([case]).loss)
            editor.restore()
        seconds[name] = (time.process_time() - started) / count
    fine_tuning.forward_above = forward_above
    print(
        f"ft_m: {seconds['above']:.2f} CPU seconds per edit of 25 steps, {seconds['whole']:.2f} without it: ",
        end="",
    )
    print(f"{seconds['whole'] / seconds['above']:.1f} times; losses {losses['above']} and {losses['whole']}")
    if any(abs(a - b) > 1e-3 for a, b in zip(losses["above"], losses["whole"], strict=True)):
        raise SystemExit("the two ways of editing disagree")


AT_ONCE = {"memit": 10, "encore": 10, "rlsedit": 10, "alphaedit": 10, "lyaplock": 10}
"""Number of edits given together."""

NOT_TIMED = {"mend": {"train_steps": 5}}
"""Settings that only shorten the preparation before the first edit; MEND's training is printed separately."""


def measure_methods(model: LanguageModel, names: Sequence[str], count: int) -> None:
    """CPU seconds per edit of methods that change the model, with the published settings."""
    edits = EditFile.open(EDITS) if EDITS.is_file() else None
    cases = list(edits.cases())[:count] if edits else question_cases(count)
    every = edits.known_facts()[100:3100] if edits else []
    for name in names:
        method, size = METHODS[name], AT_ONCE.get(name, 1)
        known = every if "corpus" in method.settings_type.model_fields else every[:40]
        if method.capabilities.needs_known_facts and not known:
            print(f"{name}: not measured, {EDITS} is not there to take known facts from")
            continue
        editor = make_editor(name, model, NOT_TIMED.get(name, {}), contexts=(read_context("question_only"),))
        started = time.process_time()
        if editor.capabilities.needs_known_facts:
            editor.prepare(known, advance=ignore)
        prepared, losses, right, spent = time.process_time() - started, [], [], 0.0
        for batch in (cases[start : start + size] for start in range(0, count, size)):
            started = time.process_time()
            losses += [editor.apply(batch).loss or 0.0] * len(batch)
            spent += time.process_time() - started
            replies = ask(model, [Question(case.question, case.answer) for case in batch], PRESETS["synthetic"])
            right += [reply.token_match or 0.0 for reply in replies]
            editor.restore()
        print(
            f"{name}: {spent / count:.2f} CPU seconds per edit; mean loss reached "
            f"{sum(losses) / count:.3f}, teacher-forced {sum(right) / count:.2f}; {prepared:.1f} s before the first",
            flush=True,
        )


def _changing_the_model() -> list[str]:
    return [name for name, method in METHODS.items() if method.capabilities.changes_model]


def measure_with_peer(model: LanguageModel, options: argparse.Namespace) -> None:
    """Compare with EasyEdit on CounterFact edits whose subjects both sides find, and on which no setting was chosen."""
    edits = EditFile.open(EDITS)
    fine = [case for case in edits.cases() if not subject_problem(case)][1000:][: options.edits * options.runs + 1]
    with tempfile.TemporaryDirectory() as scratch:
        compare_all(
            model,
            options.method or (),
            cases=fine,
            known=edits.known_facts()[100:3100],
            edits=options.edits,
            checkout=options.peer.resolve(),
            python=options.peer_python,
            scratch=Path(scratch),
        )


def question_cases(count: int) -> list[Case]:
    """Made-up edits."""
    fact = Fact("Q1", "x", "P6", "mayor", "Q2", "y")
    return [
        Case(f"{n}", "t", "update", fact, question, "Maria Lindqvist", "", (), (), ())
        for n, question in enumerate(questions(count))
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--edits", type=int, default=3)
    parser.add_argument("--runs", type=int, default=1, help="with --peer: runs, each with different edits")
    parser.add_argument("--method", action="append", choices=METHODS, help="time these and nothing else")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="a checkout of EasyEdit to compare with")
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has what EasyEdit imports")
    options = parser.parse_args()
    model = load_model(options.model, device=options.device, dtype="float32")
    print(f"{options.model} on {options.device}, {torch.get_num_threads()} threads")
    if options.peer:
        measure_with_peer(model, options)
        return
    if not options.method:
        measure_answering(model, options.questions)
        measure_editing(model, options.edits)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["KGEDIT_HOME"] = scratch  # MEND stores its network under the home folder
        measure_methods(model, options.method or _changing_the_model(), options.edits)


if __name__ == "__main__":
    main()
