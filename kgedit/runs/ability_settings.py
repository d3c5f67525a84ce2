"""Parses and checks a spec's `ability`: a text, and tasks of lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kgedit.errors import MissingExtraError

TASK = "lm-eval:"
"""Prefix of the name or file of a task."""

_PROSE = "prose"


@dataclass(frozen=True, slots=True)
class GivenAbility:
    """Requested measurements.

    Attributes:
        text: "prose" or a file; None means no text.
        tasks: Names and files of tasks.
        problems: Errors.
    """

    text: str | None
    tasks: tuple[str, ...]
    problems: tuple[str, ...]


def read_given_ability(
    given: Sequence[str], tasks: Sequence[str], *, limit: int | None, has_weights: bool
) -> GivenAbility:
    """Parse the texts and tasks of a spec.

    Args:
        given: `ability` of the spec: texts, and tasks prefixed with TASK.
        tasks: `ability_tasks` of the spec.
        limit: `ability_limit` of the spec.
        has_weights: Whether the model is loaded in this process.
    """
    texts = [name for name in given if not name.startswith(TASK)]
    every = tuple(dict.fromkeys([*(name.removeprefix(TASK) for name in given if name.startswith(TASK)), *tasks]))
    problems = []
    if len(texts) > 1:
        problems.append(f"ability: one text is measured, not {', '.join(texts)}; put them into one file")
    for text in texts:
        if text != _PROSE and not Path(text).is_file():
            problems.append(
                f"ability: there is no file {text}; give a text, {_PROSE} for the one that kgedit has, or {TASK}NAME "
                "for a task of lm-evaluation-harness"
            )
    for task in every:
        if not task or (task.endswith((".yaml", ".yml")) and not Path(task).is_file()):
            problems.append(f"ability: there is no task file {task}" if task else f"ability: {TASK} names no task")
    if every and find_spec("lm_eval") is None:
        problems.append(f"ability: {MissingExtraError('lm_eval', 'lm-eval')}")
    if limit is not None and not every:
        problems.append(f"ability_limit is about tasks: give --ability {TASK}NAME as well")
    if (texts or every) and not has_weights:
        problems.append("ability: a served model has no weights here to measure; leave it out")
    return GivenAbility(texts[0] if texts else None, every, tuple(problems))
