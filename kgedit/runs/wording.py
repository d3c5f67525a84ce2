"""Contexts of a run: those of its presets, with demonstrations, and those that edits are trained in."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from kgedit.errors import TimestepError
from kgedit.llm.contexts import Context, read_context
from kgedit.records.cases import KnownFact
from kgedit.records.runs import Preset

ASKED = "asked"
"""Training format: every context of the presets."""


def asked_contexts(presets: Sequence[Preset], known: Sequence[KnownFact]) -> dict[str, Context]:
    """Context of each preset, by the preset's name.

    Args:
        known: Facts that may be shown as demonstrations, none of which a question asks for.

    Raises:
        TimestepError: if there are fewer facts than a preset shows.
    """
    return {
        preset.name: read_context(preset.context).with_demonstrations(choose_demonstrations(known, preset))
        for preset in presets
    }


def choose_demonstrations(known: Iterable[KnownFact], preset: Preset) -> tuple[tuple[str, str], ...]:
    """Draw pairs of question and answer by the preset's seed, from different relations as far as possible.

    Raises:
        TimestepError: if there are fewer facts than the preset shows.
    """
    if not preset.shots:
        return ()
    relations = {(fact.question, fact.answer): fact.fact.property for fact in known}
    if len(relations) < preset.shots:
        raise TimestepError(
            f"The preset {preset.name} shows {preset.shots} known facts, and there are {len(relations)} that no "
            "question asks for. Take fewer: --preset few_shot:N"
        )
    drawn = sorted(relations)
    random.Random(f"demonstrations {preset.shots_seed}").shuffle(drawn)
    first = {relations[pair]: pair for pair in reversed(drawn)}
    different = [pair for pair in drawn if first[relations[pair]] == pair]
    again = [pair for pair in drawn if first[relations[pair]] != pair]
    return tuple([*different, *again][: preset.shots])


def training_contexts(train_context: str | None, asked: Mapping[str, Context]) -> tuple[Context, ...]:
    """Contexts that a run's `train_context` refers to, each once.

    Args:
        asked: Contexts of the presets, by preset.
    """
    if train_context == ASKED:
        return tuple(dict.fromkeys(asked.values()))
    return (read_context(train_context),) if train_context else ()
