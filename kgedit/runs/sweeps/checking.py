"""Checks single values of a sweep's spec, independently of the run they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from kgedit.editing import METHODS
from kgedit.hparams.settings import explain, read_settings, unknown
from kgedit.llm.presets import PRESETS, preset_by_name
from kgedit.runs.given_run import GivenPreset, GivenRun
from kgedit.runs.spec import problems_of, settings_type_of
from kgedit.runs.sweeps.sweep_file import FieldName


def problems_of_value(key: FieldName, value: Any, *, method: object, own_presets: Mapping[str, Any]) -> list[str]:
    """Errors in the value of a field or of a setting.

    Args:
        method: Method of the run; settings of an unknown one cannot be checked.
        own_presets: Presets defined by the sweep, by name.
    """
    if key == ("method",):
        if not isinstance(value, str):
            return [f"must be the name of a method, not {value!r}; a list of them belongs into the grid"]
        return [] if value in METHODS else [unknown("editing method", value, list(METHODS))]
    if key[0] == "settings":
        return _problems_of_setting(key[1], value, method)
    if key == ("presets",):
        return _problems_of_presets(value, own_presets)
    try:
        GivenRun.model_validate({key[0]: value})
    except ValidationError as error:
        return list(dict.fromkeys(explain(item) for item in error.errors()))
    return []


def problems_of_own_preset(name: str, given: Any) -> Iterator[tuple[str, str]]:
    """Errors in a preset defined by the sweep: the module, or "" for the whole preset, and the problem."""
    if preset_by_name(name) is not None:
        yield "", "kgedit has a preset of this name; give yours another"
    elif not isinstance(given, Mapping):
        yield "", f"must be a mapping of {', '.join(GivenPreset.model_fields)}, not {given!r}"
    else:
        for problem in problems_of({"method": "none", "presets": [{"name": name, **given}]}):
            said = problem.removeprefix(f"preset '{name}': ")
            yield next((module for module in given if said.startswith(f"{module}:")), ""), said


def _problems_of_setting(name: str, value: Any, method: object) -> list[str]:
    if not isinstance(method, str) or method not in METHODS:
        return []
    found = read_settings(settings_type_of(method), {name: value}, method=method)[1]
    return [problem.removeprefix(f"settings.{name}: ") for problem in found]


def _problems_of_presets(given: Any, own: Mapping[str, Any]) -> list[str]:
    """Unknown names; errors of a preset that is a mapping are reported by its run."""
    if given is None:
        return []
    if not isinstance(given, list):
        return [f"must be a list of names of presets, not {given!r}"]
    names = [str(one) for one in given if not isinstance(one, Mapping)]
    known = list(dict.fromkeys([*PRESETS, *own]))
    return [unknown("preset", one, known) for one in names if one not in own and preset_by_name(one) is None]
