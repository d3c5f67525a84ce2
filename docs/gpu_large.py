"""Measures memory and seconds of methods on a model of Llama 3 8B's shape, and writes docs/gpu.md: ``make gpu-check``.

    python docs/gpu_large.py TIMESTEP [--method NAME...]

Its weights are random, because memory and seconds depend on shapes alone. Three edits, one after the other; the table
compares what is held and the peak with what docs/gpu_memory.py computes from the shapes.
"""

from __future__ import annotations

import argparse
import gc
import os
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from kgedit.editing import make_editor
from kgedit.llm.contexts import read_context
from kgedit.llm.devices import device_name
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model, wrap_model
from kgedit.llm.presets import PRESETS
from kgedit.progress import ignore
from kgedit.records.cases import Case, KnownFact
from kgedit.timesteps.timestep import Timestep

MEMORY: Any = runpy.run_path(str(Path(__file__).parent / "gpu_memory.py"))

EDITS, QUESTIONS, BATCH_TOKENS = 3, 128, 32_768
ONE_LAYER = {"layers": "8", "tokens": 40_000}
"""Statistics of five layers take five times as long to prepare, and their eigenvectors minutes each."""
SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("memit", "alphaedit", "anyedit", "lyaplock", "encore", "rlsedit", "crispedit"), ONE_LAYER),
    **{name: {"tokens": 40_000} for name in ("rome", "r_rome", "c_rome")},
    "mend": {"train_steps": 5},
}
"""Settings that shorten the preparation; what is computed for the comparison has them as well."""


@dataclass(frozen=True)
class Measured:
    """One method on the large model; sizes in bytes beside the weights, times in seconds.

    Attributes:
        computed: Held from the first edit on, and at the peak of an edit, from shapes.
        held: Allocated after the last edit.
        peak: Most allocated at once while edits are computed.
        prepared: Time before the first edit, and the most memory in it.
        seconds: Median time of an edit.
        problem: Why there are no figures, or "".
    """

    method: str
    computed: tuple[int, int]
    held: int = 0
    peak: int = 0
    prepared: tuple[float, int] = (0.0, 0)
    seconds: float = 0.0
    problem: str = ""


def large_model(device: str = "cuda", config: dict[str, int] | None = None) -> LanguageModel:
    """Llama 3 8B in bfloat16 with random weights, and the tokenizer of SmolLM2, whose vocabulary is smaller."""
    tokenizer = load_model("smollm2-135m", device="cpu", dtype="float32").tokenizer
    torch.manual_seed(0)
    with torch.device(device):
        settings = transformers.LlamaConfig(**(config or MEMORY["LLAMA_3_8B"]))
        module = transformers.AutoModelForCausalLM.from_config(settings, dtype=torch.bfloat16)
    return wrap_model(module.eval().requires_grad_(False), tokenizer)


def measure(model: LanguageModel, method: str, cases: Sequence[Case], known: Sequence[KnownFact]) -> Measured:
    """Edit one case after the other, and undo all."""
    given = SETTINGS.get(method, {})
    needs = MEMORY["needs_of"](method, model, given)
    row = MEMORY["activations"](model, needs.trains_from) if needs.trains_from is not None else 0
    computed = needs.held + len(cases) * needs.each
    found = Measured(method, (computed, computed + needs.step + row))
    gc.collect()
    torch.cuda.empty_cache()
    weights, seconds = torch.cuda.memory_allocated(), []
    if weights + found.computed[1] > torch.cuda.get_device_properties(0).total_memory:
        return replace(found, problem="does not fit")
    editor = make_editor(method, model, given, contexts=(read_context("question_only"),), seed=0)
    try:
        torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        if editor.capabilities.needs_known_facts:
            editor.prepare(known, advance=ignore)
        torch.cuda.synchronize()
        prepared = time.perf_counter() - started, torch.cuda.max_memory_allocated() - weights
        torch.cuda.reset_peak_memory_stats()
        for case in cases:
            started = time.perf_counter()
            if failures := editor.apply([case]).failures:
                return replace(found, problem=failures[0].reason)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
        peak = torch.cuda.max_memory_allocated() - weights
        gc.collect()
        held = torch.cuda.memory_allocated() - weights
    except torch.OutOfMemoryError:
        return replace(found, problem="out of memory")
    finally:
        editor.restore()
    return replace(found, held=held, peak=peak, prepared=prepared, seconds=statistics.median(seconds))


def answering(model: LanguageModel, questions: Sequence[Case]) -> float:
    """Questions a second, answered freely in batches after one that is not counted."""
    asked = [Question(case.question, case.answer) for case in questions]
    ask(model, asked[:8], PRESETS["wild"], batch_tokens=BATCH_TOKENS)
    started = time.perf_counter()
    ask(model, asked, PRESETS["wild"], batch_tokens=BATCH_TOKENS)
    return len(asked) / (time.perf_counter() - started)


def table(found: Sequence[Measured], *, device: str, speed: float) -> str:
    """The section of the page."""
    lines = [
        f"On {device}, torch {torch.__version__}: the shape of Llama 3 8B in bfloat16, {EDITS} "
        f"edits one after the other, settings as above ({_settings()}). GiB beside the weights; seconds before "
        f"the first edit, and the median of an edit. Unedited it answers {speed:.0f} questions a second under `wild`, "
        f"{BATCH_TOKENS:,} tokens at once.",
        "",
        "| method | held, computed | held | peak, computed | peak | peak before | s before | s per edit |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for one in found:
        held, peak = (f"{count / 2**30:.2f}" for count in one.computed)
        if one.problem:
            lines.append(f"| `{one.method}` | {held} | {one.problem} | {peak} | – | – | – | – |")
            continue
        lines.append(
            f"| `{one.method}` | {held} | {one.held / 2**30:.2f} | {peak} | {one.peak / 2**30:.2f} | "
            f"{one.prepared[1] / 2**30:.2f} | {one.prepared[0]:.1f} | {one.seconds:.2f} |"
        )
    return "\n".join(lines)


def _settings() -> str:
    return (
        f"one layer of MEMIT and related methods and of CrispEdit, {ONE_LAYER['tokens']:,} tokens of statistics, and "
        f"{SETTINGS['mend']['train_steps']} steps of MEND's training"
    )


def main(arguments: Sequence[str]) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timestep", type=Path)
    parser.add_argument("--method", action="append", help="default: all that change the model")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU here")
    if torch.cuda.get_device_properties(0).total_memory < 40 * 2**30:
        sys.exit("This GPU is too small for 8 billion parameters and their edits")
    timestep = Timestep.open(given.timestep)
    cases = [case for case in timestep.cases() if case.kind == "update"]
    model = large_model()
    speed, found = answering(model, (cases * QUESTIONS)[:QUESTIONS]), []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["KGEDIT_HOME"] = scratch  # statistics of random weights are of no use to anyone
        for method in given.method or MEMORY["NEEDS"]:
            found.append(measure(model, method, cases[:EDITS], timestep.known_facts()))
            section = table(found, device=device_name("cuda"), speed=speed)
            MEMORY["write"]("gpu_large.py", section)
            print(section.splitlines()[-1], flush=True)  # noqa: T201 - progress of a script


if __name__ == "__main__":
    main(sys.argv[1:])
