"""Hyperparameter files on offer: what there is, a run spec made of one, and whether a file of the user's is right.

METHOD/MODEL is a published config under kgedit/hparams/configs; METHOD/default is what a method has by itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import yaml

from kgedit.editing import METHODS
from kgedit.errors import SpecError, UnknownNameError
from kgedit.hparams.easyedit import is_easyedit, translate
from kgedit.hparams.published import Published, published_configs
from kgedit.hparams.settings import read_settings, unknown
from kgedit.records.runs import Setting
from kgedit.runs.spec import problems_of, read_mapping

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Checked:
    """What `check` found.

    Attributes:
        kind: What the file is, in words.
        problems: Everything that is wrong with it.
        notes: What of it is not heeded, each with the reason.
    """

    kind: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def spec_text(name: str, file: str) -> str:
    """A run spec with every setting of a method, one a line, and what it means.

    Args:
        name: METHOD/MODEL or METHOD/default.
        file: What the file will be called; for the command in its head.

    Raises:
        UnknownNameError: if there is no such config.
    """
    method, _, model = name.partition("/")
    kind = METHODS[method].settings_type
    published = _published(method, model or DEFAULT)
    source = METHODS[method].capabilities.source
    about = published.about if published else f"{method} with its defaults" + (f": {source}" if source else "")
    lines = [
        f"# {about}",
        f"# kgedit run-edit {file} --model FOLDER --timestep FOLDER",
        f"method: {method}",
        "settings:" if fields(kind) else "settings: {}",
    ]
    for item in fields(kind):
        value = (published.settings if published else {}).get(item.name, cast(Setting, item.default))
        lines.append(f"  {item.name}: {_scalar(value)}  # {item.metadata['meaning']}")
    return "\n".join(lines) + "\n"


def _published(method: str, model: str) -> Published | None:
    """A published config; None for the defaults."""
    if model == DEFAULT:
        return None
    configs = {config.model: config for config in published_configs(method)}
    if model not in configs:
        known = [DEFAULT, *configs]
        near = difflib.get_close_matches(model, known, n=1, cutoff=0.5)
        hint = f" Did you mean '{method}/{near[0]}'?" if near else ""
        raise UnknownNameError(f"There is no config '{method}/{model}'.{hint} Known: {', '.join(known)}.")
    return configs[model]


def _scalar(value: Setting) -> str:
    return yaml.safe_dump(value, allow_unicode=True, width=1000).removesuffix("...\n").strip()


def check(path: Path, *, metrics: Collection[str]) -> Checked:
    """Find every problem of a run spec, of a published config, or of one of EasyEdit's files.

    Model and timesteps may be missing from a run spec, since flags can give them.

    Args:
        metrics: Names that the presets of a run spec may name.
    """
    try:
        raw = read_mapping(path)
        if is_easyedit(raw):
            return _check_easyedit(raw)
    except SpecError as error:
        return Checked("unreadable", error.problems)
    if "applies_to" in raw:
        return _check_published(raw, method=path.resolve().parent.name)
    problems = problems_of(raw) + _unknown_metrics(raw, metrics)
    return Checked(f"a run spec for {raw.get('method')}", tuple(problems))


def _check_easyedit(raw: Mapping[str, Any]) -> Checked:
    given = translate(raw)
    kind = f"EasyEdit's {raw['alg_name']}, read as {given.raw['method']}"
    return Checked(kind, tuple(problems_of(given.raw)), given.notes)


def _unknown_metrics(raw: Mapping[str, Any], metrics: Collection[str]) -> list[str]:
    presets = raw.get("presets")
    named = [preset for preset in presets if isinstance(preset, Mapping)] if isinstance(presets, list) else []
    wrong = [str(preset["metric"]) for preset in named if preset.get("metric", "") not in ("", *metrics)]
    return [unknown("metric", metric, list(metrics)) for metric in wrong]


def _check_published(raw: Mapping[str, Any], *, method: str) -> Checked:
    """A config as it lies under kgedit/hparams/configs; its method is the folder's name."""
    parts = ["applies_to", "settings"]
    problems = [unknown("part of a config", name, parts) for name in raw if name not in parts]
    applies_to, settings = raw["applies_to"], raw.get("settings")
    if not isinstance(applies_to, Mapping) or not applies_to:
        problems.append("applies_to must name fields of a model's configuration; an empty one would fit every model")
    if not isinstance(settings, Mapping):
        problems.append(f"settings must be a mapping of names to values, not {settings!r}")
    elif method not in METHODS:
        problems.append(f"its folder must be named after its method: {unknown('method', method, list(METHODS))}")
    else:
        kind = METHODS[method].settings_type
        problems += read_settings(kind, settings, method=method)[1]
        problems += [
            f"settings.{item.name} is never open: its default is {item.default!r}, so a published value is of no use"
            for item in fields(kind)
            if item.name in settings and item.default is not None
        ]
    return Checked(f"a published config for {method}", tuple(problems))
