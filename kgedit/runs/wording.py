"""The contexts of a run: those that its presets ask in, with demonstrations, and those that edits are trained in."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from kgedit.errors import TimestepError
from kgedit.llm.contexts import Context, read_context
from kgedit.records.cases import KnownFact
from kgedit.records.runs import Preset

ASKED = "asked"
"""Training format: each context that the presets ask in."""


def asked_contexts(presets: Sequence[Preset], known: Sequence[KnownFact]) -> dict[str, Context]:
    """The context of each preset, by the preset's name.

    Args:
        known: Facts that may be shown as demonstrations: none that a question asks for.

    Raises:
        TimestepError: if there are fewer facts than a preset is to show.
    """
    return {
        preset.name: read_context(preset.context).with_demonstrations(choose_demonstrations(known, preset))
        for preset in presets
    }


def choose_demonstrations(known: Iterable[KnownFact], preset: Preset) -> tuple[tuple[str, str], ...]:
    """Pairs of question and answer drawn by the preset's seed, of different relations as far as there are.

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
    """The contexts that a run's `train_context` stands for, each once.

    Args:
        asked: As the presets ask, by preset.
    """
    if train_context == ASKED:
        return tuple(dict.fromkeys(asked.values()))
    return (read_context(train_context),) if train_context else ()
