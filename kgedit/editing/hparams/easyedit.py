"""Converts EasyEdit's hyperparameter files to kgedit's run specs.

Keys that would change the result but have no counterpart are reported with the reason, and so are unknown keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgedit.editing.hparams.easyedit_tables import FOUND_BY_ITSELF, METHODS_OF, TABLES, bound
from kgedit.editing.hparams.settings import unknown
from kgedit.errors import ModelError, SpecError

_WHOLE_SPEC = frozenset({"alg_name", "model_name", "device", "seed"})


@dataclass(frozen=True, slots=True)
class GivenSpec:
    """A run spec as given by a file, without defaults, and the ignored parts of the file with their reasons."""

    raw: dict[str, Any]
    notes: tuple[str, ...]


def is_easyedit(raw: Mapping[str, Any]) -> bool:
    """Whether a mapping is the content of one of EasyEdit's files."""
    return "alg_name" in raw


def translate(raw: Mapping[str, Any]) -> GivenSpec:
    """Convert the content of one of EasyEdit's files to a run spec.

    Raises:
        SpecError: if its method is unknown, or values are invalid.
    """
    method = method_of(raw)
    rules = TABLES[_algorithm(raw)]
    settings: dict[str, Any] = {}
    notes, problems = _missing(raw), []
    for key, value in raw.items():
        if key in _WHOLE_SPEC or key in FOUND_BY_ITSELF:
            continue
        if key not in rules:
            notes.append(f"{key}: kgedit does not know this key of {raw['alg_name']}; it is left out")
            continue
        try:
            values, note = rules[key].read(value)
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(f"{key}: {value!r} makes no sense here ({error})")
            continue
        # A disabled bound belongs to the methods without one.
        settings |= {name: given for name, given in zip(rules[key].targets, values, strict=True) if given is not None}
        if note:
            notes.append(f"{key} is {value!r}: {note}")
    if problems:
        raise SpecError(problems)
    spec: dict[str, Any] = {"method": method, "settings": settings}
    if raw.get("model_name"):
        spec["model"] = raw["model_name"]
    if raw.get("seed") is not None:
        spec["seed"] = raw["seed"]
    spec |= _device(raw.get("device"), notes)
    return GivenSpec(spec, tuple(notes))


def method_of(raw: Mapping[str, Any]) -> str:
    """kgedit's name of the method of a file.

    Raises:
        SpecError: if kgedit has no such method.
    """
    name = _algorithm(raw)
    if name != "FT":
        return METHODS_OF[name]
    if raw.get("objective_optimization", "target_new") != "prompt_last":
        return "ft_m"
    return "ft" if bound(raw.get("norm_constraint"))[0][0] is None else "ft_l"


def _algorithm(raw: Mapping[str, Any]) -> str:
    name = str(raw["alg_name"]).upper()
    if name not in TABLES:
        known = [*METHODS_OF, "FT"]
        raise SpecError([f"alg_name: {unknown('method of EasyEdit that kgedit has', raw['alg_name'], known)}"])
    return name


def _missing(raw: Mapping[str, Any]) -> list[str]:
    if _algorithm(raw) == "FT" and "objective_optimization" not in raw:
        return ["objective_optimization is missing: taken as 'target_new' (ft_m); for 'prompt_last' give --method ft_l"]
    return []


def _device(given: object, notes: list[str]) -> dict[str, str]:
    """Convert a device; a number refers to a GPU of the machine on which the file was written."""
    if given is None:
        return {}
    name = str(given) if not str(given).isdigit() else f"cuda:{given}"
    try:
        from kgedit.llm.devices import resolve_device
    except ModuleNotFoundError:  # without torch the file can be checked, but no run starts
        return {"device": name}
    try:
        return {"device": resolve_device(name)}
    except ModelError:
        notes.append(f"device is {given!r}: there is no {name} here, so 'auto' is taken; --device names another")
        return {}
