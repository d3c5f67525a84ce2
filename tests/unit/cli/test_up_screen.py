"""The screen at the end of `kgedit up`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from kgedit.cli.up import plan, screen
from kgedit.verbs.up_estimates import StepEstimate
from kgedit.verbs.up_inputs import DatedState, UpInputs


def _share(mean: float, n: int = 30) -> dict[str, Any]:
    return {"mean": mean, "low": mean / 2, "high": (1 + mean) / 2, "n": n}


def _method(model: str, method: str, **changes: Any) -> dict[str, Any]:
    shares = {"free": _share(0.9), "reworded": _share(0.8), "kept": _share(0.7)}
    return {"model": model, "method": method, "seconds_per_edit": 0.1234, **shares, **changes}


def _numbers(*methods: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answers = [{"model": one["model"], "method": one["method"]} for one in methods]
    right, wrong = {"before": "Ada", "after": "Bo", "right": True}, {"before": "", "after": "Eve", "right": False}
    example = {
        "question": "Who is the mayor of Arvika?",
        "target": "Bo",
        "old_answers": ["Ada"],
        "answers": [{**answer, **said} for answer, said in zip(answers, (right, wrong), strict=False)],
    }
    sentences = ["Ten facts changed.", "Before the edits, tiny knew 9 of them.", "Learned.", "Damage: 3.", "See PAGE."]
    shown = {"changes": {"seed": 0}, "changes_page": "reports/changes.html"}
    return {"sentences": sentences, "methods": methods, "examples": [example], **shown, **changes}


def test_each_way_of_editing_is_a_row_with_intervals() -> None:
    shown = screen(_numbers(_method("tiny", "locft_bf"), _method("smollm2-135m", "graph_rag")))
    table = """
                               new facts       asked in      unrelated  seconds
                         answered freely    other words   answers kept  an edit
model, method                     n = 30         n = 30         n = 30
tiny, locft_bf             90 % [45, 95]  80 % [40, 90]  70 % [35, 85]     0.12
smollm2-135m, graph_rag    90 % [45, 95]  80 % [40, 90]  70 % [35, 85]     0.12
"""
    assert table in shown
    assert shown.startswith("Ten facts changed. Before the edits, tiny knew 9 of them.")
    assert "95 % intervals are in brackets. Damage: 3." in shown


def test_numbers_of_answers_that_differ_are_beside_each_share() -> None:
    shown = screen(_numbers(_method("tiny", "locft_bf"), _method("smollm2-135m", "rag", kept=_share(1.0, n=28))))
    assert "70 % [35, 85], n = 30" in shown
    assert "100 % [50, 100], n = 28" in shown


def test_what_was_not_measured_is_a_dash() -> None:
    assert "–" in screen(_numbers(_method("tiny", "locft_bf", kept=None)))


def test_examples_show_question_target_and_both_answers_with_the_verdict() -> None:
    shown = screen(_numbers(_method("tiny", "locft_bf"), _method("smollm2-135m", "graph_rag")))
    assert (
        """
Who is the mayor of Arvika?
  Right answer: Bo (formerly Ada)
  tiny, locft_bf          before: "Ada"
                          after:  "Bo", right
  smollm2-135m, graph_rag before: no answer
                          after:  "Eve", wrong
"""
        in shown
    )


def test_long_answers_are_wrapped_and_control_characters_are_visible() -> None:
    numbers = _numbers(_method("tiny", "locft_bf"))
    numbers["examples"][0]["answers"][0] |= {"before": "\x1b[2J" + "word " * 40, "after": ""}
    shown = screen(numbers, width=80)
    assert "\x1b" not in shown
    assert max(map(len, shown.split("One of the questions")[1].splitlines())) <= 80


def test_the_first_line_names_data_models_methods_steps_and_time() -> None:
    inputs = UpInputs(
        home=Path("home"),
        older=DatedState(date(2021, 1, 4)),
        newer=DatedState(date(2023, 2, 27)),
        is_sample=True,
        runs=({"model": "tiny", "method": "locft_bf"}, {"model": "smollm2-135m", "method": "graph_rag"}),
    )
    done = StepEstimate("load", True, 0.0, 0, 0, 0, "")
    to_do = StepEstimate("run", False, 87.0, 0, 0, 0, "")
    assert plan(inputs, [done, to_do]) == (
        "Finding what changed in the bundled sample of Wikidata between 2021-01-04 and 2023-02-27, and editing tiny "
        "with locft_bf and smollm2-135m with graph_rag: 2 steps, 1 already done, about 90 seconds on two idle cores. "
        "If it is stopped, the same command resumes it."
    )
    unknown = StepEstimate("run", False, None, 0, 0, 0, "")
    assert "about" not in plan(inputs, [unknown])
