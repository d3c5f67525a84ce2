"""What remains of edits that were withdrawn: weights and answers, for edits made in one call and one by one.

    OMP_NUM_THREADS=1 python benchmarks/withdrawal.py TIMESTEP --model tiny --edits 30 --layers 0

Every third edit of a timestep is withdrawn, and the model is compared with one in which these edits were never made,
the others in the same order. Remains: norm of the difference between these two models, divided by the norm of what the
withdrawn edits had changed. Statistics are of a fixed text (`corpus: sample`), so they do not depend on the edits. The
table is Markdown. On `tiny` only its first block can be edited: the output of the last block at the subject does not
reach the answer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

import kgedit
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.timestep import find_timestep
from kgedit.verbs.edited_model import EditedModel
from kgedit.verbs.stats import TINY, tiny_for

METHODS = {"memit": {"history": True}, "encore": {}, "rlsedit": {}, "alphaedit": {}}
TOGETHER = {"one call": True, "one by one": False}

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Remaining:
    """What withdrawing edits left.

    Attributes:
        change: Norm of the remaining change, divided by that of the whole one.
        answered: Withdrawn edits whose question the model still answers with their target.
        as_never: Withdrawn edits whose question it answers as the model in which they were never made.
        others: Other edits whose question it answers as that model.
    """

    change: float
    answered: int
    as_never: int
    others: int


def measure(model: LanguageModel, method: str, cases: Sequence[Case], *, together: bool, layers: str) -> Remaining:
    """Make all edits and withdraw every third, then make only the others."""
    withdrawn, others = list(cases[1::3]), [case for index, case in enumerate(cases) if index % 3 != 1]
    settings = {**METHODS[method], "layers": layers, "corpus": "sample"}
    with _edited(model, method, cases, settings, together=together) as edited:
        whole = _weights(model)
        edited.withdraw(*(case.case_id for case in withdrawn))
        left, answers = _weights(model), _answers(edited, [*withdrawn, *others])
    with _edited(model, method, others, settings, together=together) as never:
        expected, without = _weights(model), _answers(never, [*withdrawn, *others])
    same = [one == other for one, other in zip(answers, without, strict=True)]
    return Remaining(
        change=_distance(left, expected) / _distance(whole, expected),
        answered=sum(case.answer in answer for case, answer in zip(withdrawn, answers, strict=False)),
        as_never=sum(same[: len(withdrawn)]),
        others=sum(same[len(withdrawn) :]),
    )


def _edited(
    model: LanguageModel, method: str, cases: Sequence[Case], settings: dict[str, object], *, together: bool
) -> EditedModel:
    calls = [list(cases)] if together else [[case] for case in cases]
    edited = kgedit.edit(model, method, cases=calls[0], settings=settings)
    for call in calls[1:]:
        edited.apply(call)
    return edited


def _answers(edited: EditedModel, cases: Sequence[Case]) -> list[str]:
    return edited.ask([case.question for case in cases])


def _weights(model: LanguageModel) -> Weights:
    return {name: weight.detach().clone() for name, weight in model.module.named_parameters() if "down_proj" in name}


def _distance(one: Weights, other: Weights) -> float:
    return float(sum((one[name].double() - other[name].double()).square().sum() for name in one) ** 0.5)


def rows(model: LanguageModel, cases: Sequence[Case], methods: Sequence[str], layers: Sequence[str]) -> Iterator[str]:
    """Rows of the table."""
    unchanged = len(cases) - len(cases[1::3])
    for method in methods:
        for chosen in layers:
            for name, together in TOGETHER.items():
                started = time.process_time()
                found = measure(model, method, cases, together=together, layers=chosen)
                share = f"{found.change:.2f}" if found.change > 0.005 else f"{found.change:.0e}"
                yield (
                    f"| {method} | {chosen} | {name} | {share} | {found.answered} | "
                    f"{found.as_never} of {len(cases[1::3])} | {found.others} of {unchanged} | "
                    f"{time.process_time() - started:.0f} |"
                )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timestep", help="folder, name or two dates of a timestep")
    parser.add_argument("--model", default=TINY)
    parser.add_argument("--edits", type=int, default=30)
    parser.add_argument("--layers", action="append", default=[])
    parser.add_argument("--method", action="append", default=[], choices=METHODS)
    given = parser.parse_args()
    timestep = open_edits(find_timestep(given.timestep))
    model = tiny_for(timestep, "cpu", "float32") if given.model == TINY else kgedit.load_model(given.model)
    cases = [case for case in timestep.cases() if case.fact.subject_label in case.question][: given.edits]
    print("| Method | Layers | Made | Remains | Still answered | As never made | Others as never made | s |")
    print("| :-- | :-- | :-- | --: | --: | :-- | :-- | --: |")
    for row in rows(model, cases, given.method or list(METHODS), given.layers or ["0"]):
        print(row, flush=True)


if __name__ == "__main__":
    main()
