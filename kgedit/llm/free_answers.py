"""Free generation outside of a run: greedy decoding in batches."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.errors import SpecError
from kgedit.llm.generation import BATCH_TOKENS, Question, ask, plan_batches
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.records.runs import Preset


def free_preset(name: str) -> Preset:
    """Return a preset with free generation.

    Raises:
        SpecError: if there is no such preset.
    """
    free = {name: preset for name, preset in PRESETS.items() if preset.generation == "greedy"}
    if name not in free:
        raise SpecError([f"there is no preset '{name}' with free generation; known: {', '.join(free)}"])
    return free[name]


def answer_freely(model: LanguageModel, questions: Sequence[Question], preset: Preset) -> list[str]:
    """Return the model's answers, in the order of the questions."""
    answers = [""] * len(questions)
    for batch in plan_batches(model, questions, preset, batch_tokens=BATCH_TOKENS):
        for index, reply in zip(batch, ask(model, [questions[row] for row in batch], preset), strict=True):
            answers[index] = reply.text
    return answers
