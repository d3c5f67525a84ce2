"""How far rules and a local judge agree with judgement by hand.

Prints the table of docs/measurements/2026-11-25-agreement-of-judges.md.

``measure.py`` takes the stored verdicts of models; ``measure.py MODEL`` asks a local model for its verdicts first and
stores them as MODEL.txt, a line for each answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kgedit.clustered_statistics import Integers, clustered_interval
from kgedit.metrics import METRICS
from kgedit.metrics.scores import RIGHT_FROM, RULES, cohens_kappa
from kgedit.records.runs import UNEDITED, Answer

FOLDER = Path(__file__).parent


class Row(NamedTuple):
    """One way of judging against judgement by hand."""

    name: str
    same: int
    of: int
    low: float
    high: float
    kappa: float | None
    called_right: int
    wrongly_right: int
    wrongly_wrong: int

    def cells(self) -> str:
        """A line of the table."""
        kappa = "–" if self.kappa is None else f"{self.kappa:.2f}"
        share = f"{self.same / self.of:.1%} | {self.low:.1%} to {self.high:.1%}"
        return f"| {self.name} | {share} | {kappa} | {self.wrongly_right} | {self.wrongly_wrong} |"


def answers() -> list[dict[str, object]]:
    """The answers judged by hand."""
    return [json.loads(line) for line in (FOLDER / "answers.jsonl").read_text(encoding="utf-8").splitlines()]


def to_answer(row: dict[str, object]) -> Answer:
    """As a run would have stored it."""
    return Answer(
        model_state=UNEDITED,
        timestep="",
        case_id="",
        relation=str(row["relation"]),
        axis="update",
        preset=str(row["asked"]),
        context="",
        generation="greedy",
        truncation="",
        question=str(row["question"]),
        prompt="",
        answers=tuple(row["accepted"]),  # type: ignore[arg-type]
        text=str(row["text"]),
        token_match=None,
        prompt_tokens=0,
        new_tokens=0,
        seconds=0.0,
    )


def rows() -> Iterator[Row]:
    """Every rule, then every model whose verdicts are stored."""
    judged = answers()
    by_hand = [bool(row["right"]) for row in judged]
    # Each question is asked in three ways: its answers are a cluster.
    questions = np.unique([str(row["question"]) for row in judged], return_inverse=True)[1].astype(np.int64)
    for rule in RULES:
        values = [METRICS[rule].judge(to_answer(row), None) for row in judged]
        name = f"{rule}, from {RIGHT_FROM} on" if rule == "token_f1" else rule
        yield _row(name, [value is not None and value >= RIGHT_FROM for value in values], by_hand, questions)
    for path in sorted(FOLDER.glob("*.txt")):
        verdicts = [line == "CORRECT" for line in path.read_text(encoding="utf-8").splitlines()]
        yield _row(f"judge {path.stem}", verdicts, by_hand, questions)


def _row(name: str, said: list[bool], by_hand: list[bool], questions: Integers) -> Row:
    pairs = list(zip(said, by_hand, strict=True))
    low, high = clustered_interval(np.equal(said, by_hand).astype(np.float64), questions) or (0.0, 1.0)
    return Row(
        name=name,
        same=sum(one == other for one, other in pairs),
        of=len(pairs),
        low=low,
        high=high,
        kappa=cohens_kappa(said, by_hand),
        called_right=sum(said),
        wrongly_right=sum(one and not other for one, other in pairs),
        wrongly_wrong=sum(other and not one for one, other in pairs),
    )


def ask(model: str) -> dict[str, list[str]]:
    """Verdicts of a local model, with its liking for a word taken off and as it is."""
    from kgedit.llm.judging import Judgement
    from kgedit.llm.loading import load_model
    from kgedit.llm.local_chat import LocalJudge

    judgements = [
        Judgement(answer.question, answer.answers, answer.text) for answer in (to_answer(row) for row in answers())
    ]
    judge = LocalJudge(load_model(model, device="cpu", dtype="float32"))
    margins = judge.margins(judgements)
    return {
        name: ["CORRECT" if margin > threshold else "INCORRECT" for margin in margins]
        for name, threshold in ((f"{model} calibrated", judge.liking), (f"{model} as it is", 0.0))
    }


if __name__ == "__main__":
    for model in sys.argv[1:]:
        for name, verdicts in ask(model).items():
            (FOLDER / f"{name}.txt").write_text("".join(f"{verdict}\n" for verdict in verdicts), encoding="utf-8")
    print("\n".join(row.cells() for row in rows()))  # noqa: T201
