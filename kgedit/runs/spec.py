"""Run specs: YAML and flags in, a RunSpec with every default filled in out, all problems reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

import yaml

from kgedit.editing import METHODS
from kgedit.editing.editor import Editor
from kgedit.errors import KgeditError, ModelError, SpecError, UnknownNameError
from kgedit.hparams.easyedit import GivenSpec, is_easyedit, translate
from kgedit.hparams.settings import ASKED, read_settings, read_value, unknown
from kgedit.llm.contexts import read_context
from kgedit.llm.devices import resolve_device, resolve_dtype
from kgedit.llm.presets import GENERATIONS, PRESETS, STOPS
from kgedit.records.runs import PROTOCOLS, Preset, Protocol, RunSpec, Setting

DEFAULT_PRESETS = ("synthetic", "wild")
_WHOLE = {"batch_size": 1, "limit": 1, "evaluate_every": 1, "checkpoint_every": 1, "batch_tokens": 1, "seed": 0}
_BATCH_TOKENS = {"cpu": 4096, "cuda": 32768}


def read_spec(path: Path) -> GivenSpec:
    """A YAML spec of ours, or one of EasyEdit's hyperparameter files as such a spec.

    Raises:
        SpecError: if it cannot be read as a mapping, or is EasyEdit's for a method that kgedit does not have.
    """
    raw = read_mapping(path)
    return translate(raw) if is_easyedit(raw) else GivenSpec(raw, ())


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML file whose top level is a mapping.

    Raises:
        SpecError: if it is none.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError([f"{path} cannot be read: {error}"]) from error
    if not isinstance(raw, dict):
        raise SpecError([f"{path} must be a mapping such as 'method: ft_m', not {type(raw).__name__}"])
    return raw


def write_spec(spec: RunSpec) -> str:
    """YAML of a resolved spec; `read_spec` and `resolve` give the same spec back."""
    plain = asdict(spec)
    plain["timesteps"] = list(spec.timesteps)
    plain["presets"] = list(plain["presets"])
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def resolve(raw: Mapping[str, Any]) -> RunSpec:
    """Fill in every default.

    Args:
        raw: Fields of RunSpec, as YAML or flags give them; absent or None means the default. A preset is a name or a
            mapping of Preset's fields.

    Raises:
        SpecError: naming every problem.
    """
    values, problems = _read(raw)
    if problems:
        raise SpecError(problems)
    return RunSpec(**values)


def problems_of(raw: Mapping[str, Any]) -> list[str]:
    """Every problem of a spec in which model and timesteps may be missing, since flags can give them."""
    return _read(raw, optional=("model", "timesteps"))[1]


def _read(raw: Mapping[str, Any], *, optional: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """Values for RunSpec, of use where there is no problem, and every problem."""
    names = [item.name for item in fields(RunSpec)]
    problems = [unknown("field", name, names) for name in raw if name not in names]
    needed = {name for name in ("model", "timesteps") if name not in optional or raw.get(name) is not None}
    whole = {name: _whole(raw.get(name), name, problems) for name in _WHOLE}
    method = _method(raw.get("method"), problems)
    protocol = _protocol(raw.get("protocol"), method, problems)
    settings = _settings(raw, method, problems)
    device, dtype = _placing(raw, problems)
    presets = _presets(raw.get("presets"), problems)
    timesteps = _timesteps(raw.get("timesteps"), problems) if "timesteps" in needed else ()
    batch_size = _batch_size(whole["batch_size"], protocol, method, problems)
    model = raw.get("model")
    if "model" in needed and (not isinstance(model, str) or not model):
        problems.append("model is missing: give --model smollm2-135m, tiny, a folder or a name on the Hugging Face hub")
    evaluate_earlier = raw.get("evaluate_earlier") or False
    if not isinstance(evaluate_earlier, bool):
        problems.append(f"evaluate_earlier must be true or false, not {evaluate_earlier!r}")
    if whole["evaluate_every"] is not None and protocol != "sequential":
        problems.append(f"evaluate_every is for the protocol 'sequential', not '{protocol}'")
    values = {
        "timesteps": timesteps,
        "model": model,
        "method": raw.get("method"),
        "settings": settings,
        "protocol": protocol,
        "batch_size": batch_size,
        "presets": presets,
        "limit": whole["limit"],
        "evaluate_earlier": evaluate_earlier,
        "evaluate_every": whole["evaluate_every"],
        "checkpoint_every": whole["checkpoint_every"] or 50,
        "batch_tokens": whole["batch_tokens"] or _BATCH_TOKENS[device.partition(":")[0]],
        "seed": whole["seed"] or 0,
        "device": device,
        "dtype": dtype,
    }
    return values, problems


def _whole(given: object, name: str, problems: list[str]) -> int | None:
    if given is None:
        return None
    try:
        value = cast(int, read_value(given, int))
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return None
    if value < _WHOLE[name]:
        problems.append(f"{name} must be at least {_WHOLE[name]}, not {value}")
    return value


def _method(name: object, problems: list[str]) -> type[Editor[Any]] | None:
    if not isinstance(name, str):
        problems.append(f"method is missing: give one of {', '.join(METHODS)}")
        return None
    try:
        return METHODS[name]
    except UnknownNameError as error:
        problems.append(str(error))
        return None


def _protocol(given: object, method: type[Editor[Any]] | None, problems: list[str]) -> Protocol:
    possible = method.capabilities.protocols if method else PROTOCOLS
    if given is None:
        return possible[0]
    if given not in PROTOCOLS:
        problems.append(unknown("protocol", given, list(PROTOCOLS)))
    elif given not in possible:
        problems.append(f"this method cannot do the protocol '{given}'; it does {', '.join(possible)}")
    return cast(Protocol, given)


def _settings(raw: Mapping[str, Any], method: type[Editor[Any]] | None, problems: list[str]) -> dict[str, Setting]:
    given = raw.get("settings") or {}
    if not isinstance(given, Mapping):
        problems.append(f"settings must be a mapping of names to values, not {given!r}")
        return {}
    if method is None:
        return {}
    settings, found = read_settings(method.settings_type, given, method=str(raw["method"]))
    problems.extend(found)
    names = [item.name for item in fields(method.settings_type)]
    if "context" in names and given.get("context", ASKED) != ASKED:
        problems.extend(_context_problems(given["context"]))
    return {} if settings is None else {name: getattr(settings, name) for name in names}


def _placing(raw: Mapping[str, Any], problems: list[str]) -> tuple[str, str]:
    try:
        device = resolve_device(str(raw.get("device") or "auto"))
        return device, resolve_dtype(str(raw.get("dtype") or "auto"), device)
    except ModelError as error:
        problems.append(str(error))
        return "cpu", "float32"


def _presets(given: object, problems: list[str]) -> tuple[Preset, ...]:
    wanted = list(DEFAULT_PRESETS) if given is None else given
    if not isinstance(wanted, (list, tuple)) or not wanted:
        problems.append("presets must be a list of names or of mappings, and not an empty one")
        return ()
    presets = [preset for item in wanted if (preset := _preset(item, problems)) is not None]
    names = [preset.name for preset in presets]
    problems.extend(f"two presets are called '{name}'" for name in sorted(set(names)) if names.count(name) > 1)
    return tuple(presets)


def _preset(given: object, problems: list[str]) -> Preset | None:
    if isinstance(given, str):
        if given not in PRESETS:
            problems.append(unknown("preset", given, list(PRESETS)))
        return PRESETS.get(given)
    try:
        preset = Preset(**{"max_new_tokens": 50, **cast(dict[str, Any], given)})
    except TypeError as error:
        problems.append(f"the preset {given!r} is not a name, nor a mapping of Preset's fields ({error})")
        return None
    found = _context_problems(preset.context)
    if preset.generation not in GENERATIONS:
        found.append(unknown("generation", preset.generation, list(GENERATIONS)))
    if preset.truncation not in STOPS:
        found.append(unknown("truncation", preset.truncation, list(STOPS)))
    if preset.generation == "teacher_forcing" and preset.truncation != "gold_length":
        found.append("teacher_forcing is as long as the gold answer: its truncation must be gold_length")
    if not isinstance(preset.max_new_tokens, int) or preset.max_new_tokens < 1:
        found.append(f"max_new_tokens must be a whole number from 1, not {preset.max_new_tokens!r}")
    problems.extend(f"preset '{preset.name}': {problem}" for problem in found)
    return None if found else preset


def _context_problems(name: object) -> list[str]:
    try:
        read_context(str(name))
    except SpecError as error:
        return list(error.problems)
    except KgeditError as error:
        return [str(error)]
    return []


def _timesteps(given: object, problems: list[str]) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(item, (str, Path)) for item in given):
        problems.append(
            "timesteps is missing: give --timestep FOLDER, once for each timestep in their order, or --edits FILE"
        )
        return ()
    for folder in map(Path, given):
        if not folder.is_file() and not (folder / "timestep.json").is_file():
            state = "is not a finished timestep" if folder.is_dir() else "does not exist"
            problems.append(f"the timestep {folder} {state}. Make it: kgedit export-timestep --out {folder}")
    return tuple(str(item) for item in given)


def _batch_size(
    given: int | None, protocol: Protocol, method: type[Editor[Any]] | None, problems: list[str]
) -> int | None:
    most = method.capabilities.most_edits_at_once if method else None
    if protocol == "sequential":
        size = given or 1
        if most is not None and size > most:
            problems.append(f"this method takes at most {most} edits at once, not {size}: lower batch_size")
        return size
    whole_timestep = protocol == "per_timestep"
    if given is not None and (whole_timestep or given != 1):
        problems.append(f"batch_size is for the protocol 'sequential'; '{protocol}' fixes it")
    return None if whole_timestep else 1
