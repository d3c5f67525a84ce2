"""Presets of a run, by name or user-defined, and its contexts: those of the presets and those of training."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from kgedit.editing.hparams.settings import unknown
from kgedit.errors import KgeditError, SpecError, TimestepError
from kgedit.llm.contexts import CHAT, Context, read_context
from kgedit.llm.presets import PRESETS, THINKING_TOKENS, preset_by_name
from kgedit.metrics import METRICS
from kgedit.records.cases import AXES, KnownFact
from kgedit.records.runs import Preset
from kgedit.runs.given_run import GivenPreset

if TYPE_CHECKING:
    from kgedit.llm.tokenization import ChatFormat

DEFAULT_PRESETS = ("synthetic", "wild")
DEFAULT_CHAT_PRESETS = ("synthetic", "wild_chat")
"""Default presets of a model whose tokenizer has a chat template: such a model ends a raw prompt at once."""


def default_presets(model: str | None) -> tuple[str, ...]:
    """Default presets of a model; None means a model that is not known yet."""
    if not model:
        return DEFAULT_PRESETS
    from kgedit.llm.loading import has_chat_template

    return DEFAULT_CHAT_PRESETS if has_chat_template(model) else DEFAULT_PRESETS


def read_presets(given: Sequence[str | GivenPreset]) -> tuple[tuple[Preset, ...], list[str]]:
    """Resolve the valid presets, and list the problems of all."""
    presets: list[Preset] = []
    problems = []
    for item in given:
        preset = preset_by_name(item) if isinstance(item, str) else Preset(**item.model_dump())
        if preset is None:
            problems.append(unknown("preset", item, list(PRESETS)))
            continue
        problems += [f"preset '{preset.name}': {problem}" for problem in _problems_of_preset(preset)]
        presets.append(preset)
    names = [preset.name for preset in presets]
    problems += [f"two presets are called '{name}'" for name in sorted(set(names)) if names.count(name) > 1]
    return tuple(presets), problems


def with_thinking(
    presets: tuple[Preset, ...], thinking: str | None, tokens: int | None
) -> tuple[tuple[Preset, ...], list[str]]:
    """Apply the options of reasoning to the presets, and list their problems.

    Args:
        thinking: "on" for every preset that decodes in a chat, "off" for none; None leaves the presets unchanged.
        tokens: Maximum number of tokens of reasoning; None means the preset's, or the default.
    """
    if thinking == "off":
        problems = ["thinking_tokens is for models that reason: leave it out, or give --thinking on"] if tokens else []
        return tuple(replace(preset, thinking_tokens=0) for preset in presets), problems
    chosen = [preset.thinking_tokens > 0 or (thinking == "on" and _may_think(preset)) for preset in presets]
    if (thinking == "on" or tokens) and not any(chosen):
        return presets, [
            "thinking: no preset decodes in a chat, where models reason; ask in wild_chat or thinking_chat"
        ]
    return tuple(
        replace(preset, thinking_tokens=tokens or preset.thinking_tokens or THINKING_TOKENS) if thinks else preset
        for preset, thinks in zip(presets, chosen, strict=True)
    ), []


def _may_think(preset: Preset) -> bool:
    return preset.generation == "greedy" and preset.context.partition(":")[0] == CHAT


def _problems_of_preset(preset: Preset) -> list[str]:
    found = problems_of_context(preset.context)
    if preset.is_forced and preset.truncation != "gold_length":
        found.append("teacher_forcing is as long as the gold answer: its truncation must be gold_length")
    if preset.is_forced and preset.stop_entropy is not None:
        found.append("teacher_forcing generates nothing that could end early: leave out stop_entropy")
    if preset.thinking_tokens and not _may_think(preset):
        found.append("thinking_tokens is for presets that decode in a chat: take the context chat or chat:NAME")
    if preset.metric not in METRICS:
        return [*found, unknown("metric", preset.metric, list(METRICS))]
    metric = METRICS[preset.metric]
    if metric.afterwards:
        return [*found, f"a run cannot be scored by {metric.name} while it is made; afterwards: kgedit score RUN"]
    if not metric.judges(preset.generation):
        fitting = [
            name
            for name, other in METRICS.items()
            if other.judges(preset.generation) and other.axes == AXES and not other.afterwards
        ]
        found.append(f"the metric {metric.name} cannot judge {preset.generation}; take {' or '.join(fitting)}")
    elif not set(preset.axes or AXES) <= set(metric.axes):
        judged = ", ".join(metric.axes)
        found.append(f"the metric {metric.name} judges {judged} only; a preset asks on every axis, or on its axes")
    return found


def problems_of_context(name: object) -> list[str]:
    """Reasons why a context cannot be read; empty if it can."""
    try:
        read_context(str(name))
    except SpecError as error:
        return list(error.problems)
    except KgeditError as error:
        return [str(error)]
    return []


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


def training_contexts(
    train_context: str | None,
    presets: Sequence[Preset],
    asked: Mapping[str, Context],
    chat: ChatFormat | None,
    thoughts: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> tuple[Context, ...]:
    """Contexts that a run's `train_context` refers to, each once, with the model's chat template filled in.

    Args:
        asked: Contexts of the presets, by preset.
        chat: Chat format of the model's tokenizer; None if it has no chat template.
        thoughts: Preset -> question -> what the unedited model thinks about it. An edit that is trained in the context
            of a preset with reasoning is trained after these thoughts; its loss counts the answer alone.
    """
    if train_context != ASKED:
        return (read_context(train_context).for_model(chat),) if train_context else ()
    contexts = [
        asked[preset.name].after_reasoning(chat, thoughts.get(preset.name, {}))
        if preset.thinking_tokens and chat is not None
        else asked[preset.name].for_model(chat)
        for preset in presets
    ]
    return tuple(dict.fromkeys(contexts))
