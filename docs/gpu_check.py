"""Runs every method on the CPU and on a GPU, compares their answers, and writes docs/gpu.md: ``make gpu-check``.

    python docs/gpu_check.py TIMESTEP [--model NAME...] [--method NAME...] [--out FOLDER]

Four cases, asked by teacher forcing, in float32 on both sides. A run that is whole is not made again. Where answers
differ, the run on the CPU is repeated with every weight moved to a neighbouring number: searches of many steps turn
such differences into other answers, and a GPU, which sums in another order, may not change more of them.
"""

from __future__ import annotations

import argparse
import itertools
import runpy
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from kgedit.editing import METHODS
from kgedit.llm.devices import device_name
from kgedit.llm.loading import load_model
from kgedit.llm.model_files import save_whole
from kgedit.llm.teaching import choose_lesson
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_answers, read_edit_costs
from kgedit.runs.runner import run
from kgedit.runs.spec import resolve
from kgedit.timesteps.timestep import Timestep

PAGE: Any = runpy.run_path(str(Path(__file__).parent / "gpu_memory.py"))

MODELS = ("tiny", "smollm2-135m")
CASES = 4
SETTINGS: dict[str, dict[str, object]] = {
    "mend": {"train_steps": 20},  # the default depends on the device
    "lora": {"dropout": 0},  # each device draws other numbers
    "lora_merge": {"dropout": 0},
}
"""Settings without which two devices could not agree."""

LEAST_EQUAL, MOST_APART, TOLERANCE = 0.98, 0.05, 0.15
"""At least this share of the answers is the same, or as many as after rounding alone, less the tolerance; probabilities
of right answers are on average at most so far apart."""


@dataclass(frozen=True)
class Comparison:
    """One method on two devices.

    Attributes:
        equal: Share of answers with the same text.
        apart: Mean difference of the probabilities of right answers.
        seconds: Of editing, on either device.
        rounded: Share of answers that stay the same on the first device if every weight is moved to a neighbouring
            number; None if it was not measured.
    """

    model: str
    method: str
    answers: int
    equal: float
    apart: float
    seconds: tuple[float, float]
    rounded: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether the two are as near as they have to be."""
        least = LEAST_EQUAL if self.rounded is None else min(LEAST_EQUAL, self.rounded - TOLERANCE)
        return self.equal >= least and self.apart <= MOST_APART


def compare(model: str, method: str, first: Path, second: Path) -> Comparison:
    """Two runs of specs that differ only in the device.

    Raises:
        ValueError: if they do not hold the same questions.
    """
    one, two = _answers(first), _answers(second)
    if one.keys() != two.keys():
        raise ValueError(f"{first} and {second} do not hold the same questions")
    both = [(one[key], two[key]) for key in one]
    return Comparison(
        model=model,
        method=method,
        answers=len(both),
        equal=statistics.fmean(a.text == b.text for a, b in both),
        apart=statistics.fmean(abs((a.probability or 0.0) - (b.probability or 0.0)) for a, b in both),
        seconds=(_seconds(first), _seconds(second)),
    )


def _answers(folder: Path) -> dict[tuple[object, ...], Answer]:
    return {
        (answer.model_state, answer.timestep, answer.case_id, answer.axis, answer.question, answer.preset): answer
        for answer in read_answers(folder)
    }


def _seconds(folder: Path) -> float:
    return sum(cost.seconds for cost in read_edit_costs(folder))


def run_both(
    timestep: Path, model: str, method: str, out: Path, *, devices: tuple[str, str] = ("cpu", "cuda")
) -> Comparison:
    """Run one method on two devices, and compare; once more on the first with rounded weights if they differ."""
    name = f"{model.replace('/', '_')}-{method}"
    folders = [
        _run(timestep, model, method, out / f"{name}-{place}-{device.replace(':', '_')}", device=device)
        for place, device in enumerate(devices)
    ]
    found = compare(model, method, *folders)
    if found.agrees:
        return found
    other = rounded(timestep, model, devices[0], out / "rounded" / model.replace("/", "_"))
    again = _run(timestep, str(other), method, out / f"{name}-rounded", device=devices[0])
    return replace(found, rounded=compare(model, method, folders[0], again).equal)


def _run(timestep: Path, model: str, method: str, out: Path, *, device: str) -> Path:
    given = {"timesteps": [str(timestep)], "model": model, "method": method, "limit": CASES}
    given |= {"settings": SETTINGS.get(method, {}), "presets": ["synthetic"]}
    return run(resolve({**given, "device": device, "dtype": "float32"}), out)


def rounded(timestep: Path, name: str, device: str, folder: Path) -> Path:
    """Folder of the model with every weight moved to the next number in float32, up or down by lot."""
    if not folder.is_dir():
        first = Timestep.open(timestep)
        lesson = choose_lesson(list(first.cases()), first.known_facts(), asked=())
        model = load_model(name, device=device, dtype="float32", lesson=lesson)
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in model.module.parameters():
                up = torch.rand(weight.shape, generator=draw) < 0.5
                weight.copy_(torch.nextafter(weight, torch.where(up, torch.inf, -torch.inf).to(weight)))
        save_whole(folder, [model.tokenizer, model.module])
    return folder


def table(found: Iterable[Comparison], *, device: str) -> str:
    """The section of the page."""
    lines = [
        f"On {device}, torch {torch.__version__}: {CASES} cases, teacher forcing, float32 on both sides. An answer is "
        f"equal if its text is; at least {LEAST_EQUAL:.0%} have to be, and probabilities on average at most "
        f"{MOST_APART} apart. Where fewer are equal: as many as if every weight is moved to a neighbouring number on "
        f"the CPU, less {TOLERANCE:.0%}.",
        "",
        "| model | method | answers | equal, % | on the CPU, rounded, % | probabilities apart | CPU, s | GPU, s | |",
        "| :-- | :-- | --: | --: | --: | --: | --: | --: | :-- |",
    ]
    for one in found:
        verdict = "" if one.agrees else "**differs**"
        alone = "" if one.rounded is None else f"{100 * one.rounded:.1f}"
        lines.append(
            f"| {one.model} | `{one.method}` | {one.answers} | {100 * one.equal:.1f} | {alone} | {one.apart:.4f} | "
            f"{one.seconds[0]:.2f} | {one.seconds[1]:.2f} | {verdict} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Run, compare, write; fails where a method differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timestep", type=Path)
    parser.add_argument("--model", action="append", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--method", action="append", help="default: all")
    parser.add_argument("--out", type=Path, default=Path("gpu-check"))
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU here, so there is nothing to compare")
    found: list[Comparison] = []
    for model, method in itertools.product(given.model or MODELS, given.method or METHODS):
        found = [*found, run_both(given.timestep, model, method, given.out)]
        PAGE["write"]("gpu_check.py", table(found, device=device_name("cuda")))
    if wrong := [f"{one.method} on {one.model}" for one in found if not one.agrees]:
        sys.exit(f"Other answers than on the CPU: {', '.join(wrong)}")


if __name__ == "__main__":
    main(sys.argv[1:])
