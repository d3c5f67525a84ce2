"""Runs every method on the CPU and on a GPU, compares their answers, and writes docs/gpu.md: ``make gpu-check``.

    python docs/gpu_check.py TIMESTEP [--model NAME...] [--method NAME...] [--out FOLDER]

Four cases, asked by teacher forcing, in float32 on both sides. A run that is whole is not made again.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from kgedit.editing import METHODS
from kgedit.llm.devices import device_name
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_answers, read_edit_costs, read_preparation
from kgedit.runs.runner import run
from kgedit.runs.spec import resolve

FILE = Path(__file__).parent / "gpu.md"
BEGIN, END = "<!-- written by docs/gpu_check.py -->", "<!-- end -->"

MODELS = ("tiny", "smollm2-135m")
CASES = 4
LEAST_EQUAL, MOST_APART = 0.98, 0.05
"""Products are summed in another order on a GPU, and a search of 25 steps carries that on: at least this share of the
answers is the same, and probabilities of right answers are on average at most so far apart."""


@dataclass(frozen=True)
class Comparison:
    """One method on two devices.

    Attributes:
        equal: Share of answers with the same text.
        apart: Mean difference of the probabilities of right answers.
        seconds: Of editing, on either device.
        peak: Peak memory in bytes, on either device.
    """

    model: str
    method: str
    answers: int
    equal: float
    apart: float
    seconds: tuple[float, float]
    peak: tuple[int, int]

    @property
    def agrees(self) -> bool:
        """Whether the two are as near as they have to be."""
        return self.equal >= LEAST_EQUAL and self.apart <= MOST_APART


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
        peak=(_peak(first), _peak(second)),
    )


def _answers(folder: Path) -> dict[tuple[object, ...], Answer]:
    return {
        (answer.model_state, answer.timestep, answer.case_id, answer.axis, answer.question, answer.preset): answer
        for answer in read_answers(folder)
    }


def _seconds(folder: Path) -> float:
    return sum(cost.seconds for cost in read_edit_costs(folder))


def _peak(folder: Path) -> int:
    prepared = read_preparation(folder)
    return max(
        [cost.peak_memory_bytes for cost in read_edit_costs(folder)] + [prepared.peak_memory_bytes if prepared else 0]
    )


def run_both(
    timestep: Path, model: str, method: str, out: Path, *, devices: tuple[str, str] = ("cpu", "cuda")
) -> Comparison:
    """Run one method on two devices, and compare."""
    folders = []
    for place, device in enumerate(devices):
        given = {"timesteps": [str(timestep)], "model": model, "method": method, "limit": CASES}
        spec = resolve({**given, "presets": ["synthetic"], "device": device, "dtype": "float32"})
        folders.append(run(spec, out / f"{model.replace('/', '_')}-{method}-{place}-{device.replace(':', '_')}"))
    return compare(model, method, *folders)


def table(found: Iterable[Comparison], *, device: str) -> str:
    """The section of the page."""
    lines = [
        f"On {device}, torch {torch.__version__}: {CASES} cases, teacher forcing, float32 on both sides. An answer is "
        f"equal if its text is; at least {LEAST_EQUAL:.0%} have to be, and probabilities on average at most "
        f"{MOST_APART} apart.",
        "",
        "| model | method | answers | equal, % | probabilities apart | CPU, s | GPU, s | GPU, GiB | |",
        "| :-- | :-- | --: | --: | --: | --: | --: | --: | :-- |",
    ]
    for one in found:
        verdict = "" if one.agrees else "**differs**"
        lines.append(
            f"| {one.model} | `{one.method}` | {one.answers} | {100 * one.equal:.1f} | {one.apart:.4f} | "
            f"{one.seconds[0]:.2f} | {one.seconds[1]:.2f} | {one.peak[1] / 2**30:.2f} | {verdict} |"
        )
    return "\n".join(lines)


def write(section: str) -> None:
    """Put the section into the page."""
    before, _, rest = FILE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    FILE.write_text(f"{before}{BEGIN}\n{section}\n{END}{after}", encoding="utf-8")


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
        write(table(found, device=device_name("cuda")))
    if wrong := [f"{one.method} on {one.model}" for one in found if not one.agrees]:
        sys.exit(f"Other answers than on the CPU: {', '.join(wrong)}")


if __name__ == "__main__":
    main(sys.argv[1:])
