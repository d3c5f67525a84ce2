"""Cost of evaluation: time and tokens by preset, before and after editing, cached replies counted separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgedit.records.runs import UNEDITED, Answer
from kgedit.records.scores import Speed


@dataclass(slots=True)
class _Totals:
    questions: int = 0
    cached: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    new_tokens: int = 0


@dataclass(slots=True)
class AskingCosts:
    """Accumulates costs over the answers of a run."""

    _totals: dict[tuple[str, bool], _Totals] = field(default_factory=dict)

    def add(self, answer: Answer) -> None:
        """Add one answer; an answer that took no time is from the cache, and its tokens cost nothing."""
        totals = self._totals.setdefault((answer.preset, answer.model_state != UNEDITED), _Totals())
        if answer.seconds == 0:
            totals.cached += 1
            return
        totals.questions += 1
        totals.seconds += answer.seconds
        totals.prompt_tokens += answer.prompt_tokens
        totals.new_tokens += answer.new_tokens

    def speeds(self, presets: Sequence[str]) -> tuple[Speed, ...]:
        """Speed of each preset, before and then after editing; only where questions were evaluated."""
        return tuple(
            Speed(
                preset=preset,
                edited=edited,
                questions=totals.questions,
                cached=totals.cached,
                seconds=round(totals.seconds, 6),
                prompt_tokens=totals.prompt_tokens,
                new_tokens=totals.new_tokens,
            )
            for preset in presets
            for edited in (False, True)
            if (totals := self._totals.get((preset, edited)))
        )
