"""Presets: named ways of asking, each a choice of input, generation, truncation and metric.

`synthetic` is what most editing papers report, `wild` is the setting of Mirage (section 3); `wild_line` is `wild`
without the stop at ".", which makes answers such as "Robert C. Newton" unreachable; `question_only` and `few_shot` ask
as `wild` and `wild_line` do, in another context.
"""

from __future__ import annotations

from kgedit.records.runs import Preset


def _freely(name: str, *, context: str, truncation: str) -> Preset:
    return Preset(
        name=name,
        context=context,
        generation="greedy",
        truncation=truncation,
        max_new_tokens=50,
        metric="exact_match",
    )


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="synthetic",
            context="question_only",
            generation="teacher_forcing",
            truncation="gold_length",
            max_new_tokens=50,
            metric="token_match",
        ),
        _freely("wild", context="instruction", truncation="newline_period"),
        _freely("wild_line", context="instruction", truncation="newline"),
        _freely("question_only", context="question_only", truncation="newline_period"),
        _freely("few_shot", context="few_shot", truncation="newline"),
    )
}

STOPS: dict[str, tuple[str, ...]] = {"newline_period": ("\n", "."), "newline": ("\n",), "gold_length": ()}
"""Truncation module -> texts that end an answer. "gold_length" ends by length instead."""

GENERATIONS = ("teacher_forcing", "greedy")
