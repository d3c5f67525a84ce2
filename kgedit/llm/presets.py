"""Presets: named ways of asking, each a choice of input, generation, truncation and metric.

`synthetic` is what most editing papers report, `wild` is the setting of Mirage (section 3); `wild_line` is `wild`
without the stop at ".", which makes answers such as "Robert C. Newton" unreachable; `question_only` and `few_shot` ask
as `wild` and `wild_line` do, in another context.
"""

from __future__ import annotations

from kgedit.records.runs import Preset

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
        Preset(
            name="wild",
            context="instruction",
            generation="greedy",
            truncation="newline_period",
            max_new_tokens=50,
            metric="exact_match",
        ),
        Preset(
            name="wild_line",
            context="instruction",
            generation="greedy",
            truncation="newline",
            max_new_tokens=50,
            metric="exact_match",
        ),
        Preset(
            name="question_only",
            context="question_only",
            generation="greedy",
            truncation="newline_period",
            max_new_tokens=50,
            metric="exact_match",
        ),
        Preset(
            name="few_shot",
            context="few_shot",
            generation="greedy",
            truncation="newline",
            max_new_tokens=50,
            metric="exact_match",
        ),
    )
}

STOPS: dict[str, tuple[str, ...]] = {"newline_period": ("\n", "."), "newline": ("\n",), "gold_length": ()}
"""Truncation module -> texts that end an answer. "gold_length" ends by length instead."""

GENERATIONS = ("teacher_forcing", "greedy")
