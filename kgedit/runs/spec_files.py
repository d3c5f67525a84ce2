"""Checks a user's file: a run spec, a published config, or one of EasyEdit's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from kgedit.editing import METHODS, settings_type_of
from kgedit.editing.hparams.easyedit import is_easyedit, translate
from kgedit.editing.hparams.settings import given_model, read_settings, unknown
from kgedit.errors import SpecError
from kgedit.runs.spec import NEED_TORCH, problems_of, read_mapping, repeated_keys


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """Result of `check`.

    Attributes:
        kind: Type of the file, in words.
        problems: All errors of the file.
        notes: Ignored parts of the file, each with the reason.
        unchecked: Fields that could not be checked because torch is not installed.
    """

    kind: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


def check(path: Path) -> CheckedFile:
    """Find all problems of a file; model and timesteps may be missing from a run spec, because options can set them."""
    try:
        raw = read_mapping(path)
    except SpecError as error:
        return CheckedFile("unreadable", error.problems)
    found = _checked(raw, method=path.resolve().parent.name)
    return replace(found, problems=(*repeated_keys(path), *found.problems))


def _checked(raw: Mapping[str, Any], *, method: str) -> CheckedFile:
    if is_easyedit(raw):
        return _check_easyedit(raw)
    if "applies_to" in raw:
        return _check_published(raw, method=method)
    unchecked = tuple(name for name in _unchecked() if raw.get(name) is not None)
    return CheckedFile(f"a run spec for {raw.get('method')}", tuple(problems_of(raw)), unchecked=unchecked)


def _unchecked() -> tuple[str, ...]:
    try:
        import_module("kgedit.llm.devices")
    except ModuleNotFoundError:
        return NEED_TORCH
    return ()


def published_schema(method: str) -> dict[str, Any]:
    """JSON schema of a method's published configs.

    Raises:
        UnknownNameError: if the method does not exist.
    """
    about = "fields of a model's configuration with the values that they must have"
    return {
        "type": "object",
        "properties": {
            "applies_to": {"type": "object", "minProperties": 1, "description": about},
            "settings": given_model(settings_type_of(method)).model_json_schema(),
        },
        "required": ["applies_to", "settings"],
        "additionalProperties": False,
    }


def _check_easyedit(raw: Mapping[str, Any]) -> CheckedFile:
    try:
        given = translate(raw)
    except SpecError as error:
        return CheckedFile("unreadable", error.problems)
    kind = f"EasyEdit's {raw['alg_name']}, read as {given.raw['method']}"
    return CheckedFile(kind, tuple(problems_of(given.raw)), given.notes)


def _check_published(raw: Mapping[str, Any], *, method: str) -> CheckedFile:
    """A config file under kgedit/editing/hparams/configs; its folder is named after the method."""
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
        problems += read_settings(settings_type_of(method), settings, method=method)[1]
    return CheckedFile(f"a published config for {method}", tuple(problems))
