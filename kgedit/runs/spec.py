"""Run specs: resolves YAML and options into a RunSpec with every default, and reports all problems at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kgedit.editing import METHODS
from kgedit.errors import ModelError, SpecError, TimestepError, UnknownNameError
from kgedit.hparams import SETTINGS
from kgedit.hparams.easyedit import GivenSpec, is_easyedit, translate
from kgedit.hparams.settings import Settings, given_model, read_settings
from kgedit.hparams.yaml_errors import why_unreadable
from kgedit.llm.backends import BACKENDS
from kgedit.llm.contexts import BARE
from kgedit.llm.load_options import parse_max_memory
from kgedit.metrics import METRICS
from kgedit.records.runs import PROTOCOLS, Preset, Protocol, RunSpec, Setting
from kgedit.runs.backends import DEFAULT, problems_of_backend
from kgedit.runs.given_run import GivenRun, read_given, read_given_ability
from kgedit.runs.presets import ASKED, default_presets, problems_of_context, read_presets
from kgedit.timesteps.timestep import find_timestep
from kgedit.untrusted import without_credentials

if TYPE_CHECKING:
    from kgedit.editing.editor import Capabilities

_BATCH_TOKENS = {"cpu": 4096, "cuda": 32768, "mps": 8192}


def read_spec(path: Path) -> GivenSpec:
    """Read a YAML run spec, or convert one of EasyEdit's hyperparameter files to one.

    Raises:
        SpecError: if it cannot be read as a mapping, or is EasyEdit's file for a method that kgedit does not have.
    """
    raw = read_mapping(path)
    return translate(raw) if is_easyedit(raw) else GivenSpec(raw, ())


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Raises:
        SpecError: if it is not.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError([why_unreadable(path, error)]) from error
    if not isinstance(raw, dict):
        raise SpecError([f"{path} must be a mapping such as 'method: ft_m', not {type(raw).__name__}"])
    return raw


def as_recorded(spec: RunSpec) -> RunSpec:
    """A spec as shown in files, trackers and messages: without user and password in the server's address."""
    return replace(spec, backend_url=spec.backend_url and without_credentials(spec.backend_url))


def write_spec(spec: RunSpec) -> str:
    """Render a resolved spec as YAML; `read_spec` and `resolve` restore it, except for a server's password."""
    plain = asdict(as_recorded(spec))
    plain["timesteps"] = list(spec.timesteps)
    plain["presets"] = [_without_absent(preset) for preset in plain["presets"]]
    plain["ability_tasks"] = list(spec.ability_tasks)
    for name in _NOT_ALWAYS_THERE:
        if not plain[name]:
            del plain[name]
    if spec.backend == DEFAULT:  # so that runs from before there were other backends resume
        del plain["backend"], plain["backend_url"]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def _without_absent(preset: dict[str, Any]) -> dict[str, Any]:
    """A preset without unset fields that earlier versions lack, so that their runs resume."""
    return {name: value for name, value in preset.items() if value or name not in ("axes", "stop_entropy")}


_NOT_ALWAYS_THERE = (
    "archive_as",
    "population",
    "neighbours",
    "two_hop_rephrases",
    "ability_tasks",
    "ability_limit",
    "max_memory",
    "trust_remote_code",
    "quantize",
)
"""Fields left out of a file if unset, so that runs from before they existed resume."""


def settings_type_of(method: str) -> type[Settings]:
    """Settings class of a method; imports other packages, including torch, only for third-party methods.

    Raises:
        UnknownNameError: if the method does not exist.
    """
    return SETTINGS[method] if method in SETTINGS else METHODS[method].settings_type


def spec_schema() -> dict[str, Any]:
    """JSON schema of run specs, including the settings of each method."""
    schema = GivenRun.model_json_schema()
    schema["properties"]["method"] = {"enum": list(METHODS), "description": "name of an editing method"}
    schema["required"] = ["method"]
    schema["allOf"] = [
        {
            "if": {"properties": {"method": {"const": name}}},
            "then": {"properties": {"settings": given_model(settings_type_of(name)).model_json_schema()}},
        }
        for name in METHODS
    ]
    return schema


def resolve(raw: Mapping[str, Any]) -> RunSpec:
    """Fill in every default.

    Args:
        raw: Fields of RunSpec as given by YAML or options; missing or None means the default. A preset is a name or a
            mapping of Preset's fields.

    Raises:
        SpecError: listing all problems.
    """
    spec, problems = _read(raw)
    if problems:
        raise SpecError(problems)
    return spec


def problems_of(raw: Mapping[str, Any]) -> list[str]:
    """All problems of a spec, in which model and timesteps may be missing because options can set them.

    Without torch, the checks of `NEED_TORCH` are skipped.
    """
    return _read(raw, only_check=True)[1]


NEED_TORCH = ("protocol", "batch_size", "device", "dtype")
"""Fields that can only be checked if torch is installed: methods declare protocols, the machine has devices."""


@dataclass(frozen=True, slots=True)
class _Method:
    """What a spec needs to know about its method; capabilities are None without torch."""

    settings_type: type[Settings]
    capabilities: Capabilities | None


def _read(raw: Mapping[str, Any], *, only_check: bool = False) -> tuple[RunSpec, list[str]]:
    """Resolve a spec, which is valid only if there are no problems, and list all problems."""
    given, problems = read_given(raw)
    needed = {name for name in ("model", "timesteps") if not only_check or raw.get(name) is not None}
    wrong = {problem.partition(":")[0] for problem in problems}
    method = _method(given.method, problems, only_check=only_check)
    protocol = _protocol(given.protocol, method, problems)
    device, dtype = _placing(given, problems, only_check=only_check)
    problems.extend(_problems_of_loading(given, method, device))
    timesteps = _timesteps(given.timesteps, problems) if "timesteps" in needed - wrong else ()
    if "model" in needed - wrong and not given.model:
        problems.append("model is missing: give --model smollm2-135m, tiny, a folder or a name on the Hugging Face hub")
    if given.evaluate_every is not None and protocol != "sequential" and "protocol" not in wrong:
        problems.append(f"evaluate_every is for the protocol 'sequential', not '{protocol}'")
    presets = read_presets(given.presets or default_presets(None if only_check else given.model), problems)
    problems.extend(_problems_of_selection(given, presets))
    backend = given.backend or DEFAULT
    problems.extend(
        problems_of_backend(
            backend,
            given.backend_url,
            model=given.model,
            capabilities=method.capabilities if method else None,
            presets=presets,
        )
    )
    ability = read_given_ability(
        [given.ability] if isinstance(given.ability, str) else given.ability or [],
        given.ability_tasks or [],
        limit=given.ability_limit,
        has_weights=backend == DEFAULT or backend not in BACKENDS or BACKENDS[backend].needs_weights,
    )
    problems.extend(ability.problems)
    spec = RunSpec(
        timesteps=timesteps,
        model=given.model or "",
        method=given.method or "",
        settings=_settings(given, method, problems),
        protocol=protocol,
        batch_size=_batch_size(given.batch_size, protocol, method, problems),
        presets=presets,
        train_context=_train_context(given.train_context, method, problems),
        archive_as=given.archive_as,
        neighbours=given.neighbours,
        two_hop_rephrases=bool(given.two_hop_rephrases),
        population=None if given.population == "all" else given.population,
        limit=given.limit,
        sample=given.sample,
        stratify=given.stratify,
        only_failed=bool(given.only_failed),
        only_cases=given.only_cases,
        order=given.order or ("file" if protocol == "single" else "random"),
        evaluate_earlier=bool(given.evaluate_earlier),
        evaluate_every=given.evaluate_every,
        checkpoint_every=given.checkpoint_every or 50,
        ability=ability.text,
        ability_tasks=ability.tasks,
        ability_limit=given.ability_limit,
        batch_tokens=given.batch_tokens or _BATCH_TOKENS[device.partition(":")[0]],
        seed=given.seed or 0,
        device=device,
        dtype=dtype,
        max_memory=given.max_memory or "",
        trust_remote_code=bool(given.trust_remote_code),
        quantize=given.quantize or "",
        backend=backend,
        backend_url=given.backend_url,
    )
    return spec, problems


def _method(name: str | None, problems: list[str], *, only_check: bool) -> _Method | None:
    if name is None:
        problems.append(f"method is missing: give one of {', '.join(METHODS)}")
        return None
    try:
        kind = METHODS[name]
    except UnknownNameError as error:
        problems.append(str(error))
        return None
    except ModuleNotFoundError:
        if only_check and name in SETTINGS:
            return _Method(SETTINGS[name], None)
        raise
    return _Method(kind.settings_type, kind.capabilities)


def _protocol(given: Protocol | None, method: _Method | None, problems: list[str]) -> Protocol:
    possible = method.capabilities.protocols if method and method.capabilities else PROTOCOLS
    if given is not None and given not in possible:
        problems.append(f"this method does not support the protocol '{given}'; it supports {', '.join(possible)}")
    return given or possible[0]


def _settings(given: GivenRun, method: _Method | None, problems: list[str]) -> dict[str, Setting]:
    if method is None:
        return {}
    settings, found = read_settings(method.settings_type, given.settings or {}, method=str(given.method))
    problems.extend(found)
    if settings is None:
        return {}
    return dict(settings.values)


def _problems_of_loading(given: GivenRun, method: _Method | None, device: str) -> Iterator[str]:
    if given.max_memory:
        try:
            parse_max_memory(given.max_memory)
        except SpecError as error:
            yield from error.problems
        if device != "cuda:all":
            yield "max_memory is for models that are spread: give --device cuda:all"
    if given.backend not in (None, DEFAULT):
        ignored = [name for name in ("max_memory", "quantize") if getattr(given, name)]
        yield from (f"{name} is for models that kgedit loads: leave out --backend {given.backend}" for name in ignored)
    if given.quantize and method and method.capabilities and not method.capabilities.takes_quantized_weights:
        yield (
            f"{given.method} computes with the model's weights, which 4 bits do not hold: leave out quantize, or take "
            "a method that leaves weights alone (lora, grace, rag, graph_rag, ike, prompt)"
        )


def _placing(given: GivenRun, problems: list[str], *, only_check: bool) -> tuple[str, str]:
    try:
        from kgedit.llm.devices import resolve_device, resolve_dtype
    except ModuleNotFoundError:
        if only_check:
            return "cpu", "float32"
        raise
    try:
        device = resolve_device(given.device or "auto")
        return device, resolve_dtype(given.dtype or "auto", device)
    except ModelError as error:
        problems.append(str(error))
        return "cpu", "float32"


def _problems_of_selection(given: GivenRun, presets: Sequence[Preset]) -> list[str]:
    found = []
    judges_by = presets[0].metric if presets else ""
    if given.only_failed and presets and presets[0].axes and "update" not in presets[0].axes:
        found.append(f"only_failed asks for the update, which the first preset, {presets[0].name}, does not")
    if given.only_failed and judges_by in METRICS and not METRICS[judges_by].of_correctness:
        found.append(f"only_failed needs a first preset whose metric tells right from wrong; {judges_by} does not")
    if given.limit is not None and given.sample is not None:
        found.append("limit takes the first cases and sample draws them: give one of the two")
    if given.stratify is not None and given.sample is None:
        found.append("stratify is about a sample: give --sample N as well")
    if given.only_cases is not None and not Path(given.only_cases).is_file():
        found.append(f"only_cases: there is no file {given.only_cases}; give one with a case id a line")
    return found


def _train_context(given: str | None, method: _Method | None, problems: list[str]) -> str | None:
    if given not in (None, ASKED):
        problems.extend(f"train_context: {problem}" for problem in problems_of_context(given))
    capabilities = method.capabilities if method is not None else None
    return None if capabilities is not None and not capabilities.trains_on_prompts else given or BARE


def _timesteps(given: Sequence[str] | None, problems: list[str]) -> tuple[str, ...]:
    if not given:
        problems.append(
            "timesteps is missing: give --timestep FOLDER, once for each timestep in their order, or --edits FILE"
        )
        return ()
    return tuple(found for one in given if (found := _edits(one, problems)))


def _edits(given: str, problems: list[str]) -> str | None:
    """Path of a file of edits or of a named timestep; None, and a problem, if it does not exist."""
    path = Path(given)
    if path.is_file():
        return given
    try:
        found = find_timestep(given)
    except TimestepError as error:
        problems.append(f"timesteps: {error}")
        return None
    return given if found == path else str(found)


def _batch_size(given: int | None, protocol: Protocol, method: _Method | None, problems: list[str]) -> int | None:
    most = method.capabilities.most_edits_at_once if method and method.capabilities else None
    if protocol == "sequential":
        size = given or 1
        if most is not None and size > most:
            problems.append(f"this method takes at most {most} edits at once, not {size}: lower batch_size")
        return size
    whole_timestep = protocol == "per_timestep"
    if given is not None and (whole_timestep or given != 1):
        problems.append(f"batch_size is for the protocol 'sequential'; '{protocol}' fixes it")
    return None if whole_timestep else 1
