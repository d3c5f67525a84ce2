"""Run specs: resolves YAML and options into a RunSpec with every default, and reports all problems at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kgedit.editing import METHODS, settings_type_of
from kgedit.editing.hparams.easyedit import GivenSpec, is_easyedit, translate
from kgedit.editing.hparams.settings import Settings, given_model, read_settings, unknown, why_unreadable
from kgedit.errors import MissingExtraError, ModelError, SpecError, TimestepError, UnknownNameError
from kgedit.llm.backends import BACKENDS
from kgedit.llm.contexts import BARE
from kgedit.llm.load_options import parse_max_memory
from kgedit.metrics import METRICS
from kgedit.records.runs import PROTOCOLS, Preset, Protocol, RunSpec, Setting
from kgedit.runs.given_run import GivenAbility, GivenRun, read_given, read_given_ability
from kgedit.runs.presets import ASKED, default_presets, problems_of_context, read_presets, with_thinking
from kgedit.runs.sweeps import read_located
from kgedit.timesteps.timestep import find_timestep
from kgedit.untrusted import without_credentials
from kgedit.yaml_files import load_yaml

if TYPE_CHECKING:
    from kgedit.editing.editor import Capabilities


_BATCH_TOKENS = {"cpu": 4096, "cuda": 32768, "mps": 8192}
"""Default of `batch_tokens` by kind of device."""

_MOST_LISTED = 3
"""Missing timesteps that are listed one by one."""

_CHECKPOINT_EVERY = 50
"""Default number of edits between two checkpoints, so at most this many are repeated after a run was killed."""


def read_spec(path: Path) -> GivenSpec:
    """Read a YAML run spec, or convert one of EasyEdit's hyperparameter files to one.

    Raises:
        SpecError: if it cannot be read as a mapping, has a key twice, or is EasyEdit's file for a method that kgedit
            does not have.
    """
    raw = read_mapping(path)
    if repeated := repeated_keys(path):
        raise SpecError(repeated)
    return translate(raw) if is_easyedit(raw) else GivenSpec(raw, ())


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Raises:
        SpecError: if it is not.
    """
    try:
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError([why_unreadable(path, error)]) from error
    if not isinstance(raw, dict):
        raise SpecError([f"{path} must be a mapping such as 'method: ft_m', not {type(raw).__name__}"])
    return raw


def repeated_keys(path: Path) -> list[str]:
    """Problems of a file that `read_mapping` can read: keys with two values in one of its mappings."""
    return [problem.text for problem in read_located(path).problems_of_keys()]


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
    if spec.backend == DEFAULT_BACKEND:  # so that runs from before there were other backends resume
        del plain["backend"], plain["backend_url"]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def _without_absent(preset: dict[str, Any]) -> dict[str, Any]:
    """A preset without unset fields that earlier versions lack, so that their runs resume."""
    return {
        name: value
        for name, value in preset.items()
        if value or name not in ("axes", "stop_entropy", "thinking_tokens")
    }


_NOT_ALWAYS_THERE = (
    "archive_as",
    "population",
    "neighbours",
    "evaluate_sample",
    "two_hop_rephrases",
    "ability_tasks",
    "ability_limit",
    "max_memory",
    "trust_remote_code",
    "quantize",
)
"""Fields left out of a file if unset, so that runs from before they existed resume."""


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
    """Facts about a method that a spec depends on; capabilities are None without torch."""

    settings_type: type[Settings]
    capabilities: Capabilities | None


def _read(raw: Mapping[str, Any], *, only_check: bool = False) -> tuple[RunSpec, list[str]]:
    """Resolve a spec, which is valid only if there are no problems, and list all problems.

    A wrong field gets a default, so that the others can still be checked.
    """
    given, wrong_fields = read_given(raw)
    method, unknown_method = _find_method(given.method, only_check=only_check)
    device, dtype, no_device = _find_device(given, only_check=only_check)
    timesteps, unknown_timesteps = _find_timesteps(given.timesteps or ())
    presets, wrong_presets = read_presets(given.presets or default_presets(None if only_check else given.model))
    presets, wrong_thinking = with_thinking(presets, given.thinking, given.thinking_tokens)
    settings, wrong_settings = _read_settings(given, method)
    ability = _read_ability(given)
    protocol = given.protocol or _protocols_of(method)[0]
    spec = replace(
        _fill_in(given, method, protocol=protocol, device=device, dtype=dtype),
        timesteps=timesteps,
        presets=presets,
        settings=settings,
        ability=ability.text,
        ability_tasks=ability.tasks,
    )
    wrong = {problem.partition(":")[0] for problem in wrong_fields}
    needed = {name for name in ("model", "timesteps") if not only_check or raw.get(name) is not None} - wrong
    problems = [
        *wrong_fields,
        *unknown_method,
        *_problems_of_protocol(given.protocol, method),
        *no_device,
        *_problems_of_loading(given, method, device),
        *(unknown_timesteps if "timesteps" in needed else ()),
        *(_problems_of_model(given.model) if "model" in needed else ()),
        *(_problems_of_evaluation(given, protocol) if "protocol" not in wrong else ()),
        *wrong_presets,
        *wrong_thinking,
        *_problems_of_selection(given, presets),
        *_problems_of_answering(given, method, presets),
        *ability.problems,
        *wrong_settings,
        *_problems_of_batch_size(given.batch_size, protocol, method),
        *_problems_of_train_context(given.train_context),
    ]
    return spec, problems


def _fill_in(given: GivenRun, method: _Method | None, *, protocol: Protocol, device: str, dtype: str) -> RunSpec:
    """The spec without the fields that have to be found or read first."""
    return RunSpec(
        timesteps=(),
        model=given.model or "",
        method=given.method or "",
        settings={},
        protocol=protocol,
        batch_size={"sequential": given.batch_size or 1, "single": 1, "per_timestep": None}[protocol],
        presets=(),
        train_context=(given.train_context or BARE) if _trains_on_prompts(method) else None,
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
        evaluate_sample=given.evaluate_sample,
        evaluate_every=given.evaluate_every,
        checkpoint_every=given.checkpoint_every or _CHECKPOINT_EVERY,
        ability_limit=given.ability_limit,
        batch_tokens=given.batch_tokens or _BATCH_TOKENS[device.partition(":")[0]],
        seed=given.seed or 0,
        device=device,
        dtype=dtype,
        max_memory=given.max_memory or "",
        trust_remote_code=bool(given.trust_remote_code),
        quantize=given.quantize or "",
        backend=given.backend or DEFAULT_BACKEND,
        backend_url=given.backend_url,
    )


def _find_method(name: str | None, *, only_check: bool) -> tuple[_Method | None, list[str]]:
    if name is None:
        return None, [f"method is missing: give one of {', '.join(METHODS)}"]
    try:
        kind = METHODS[name]
    except UnknownNameError as error:
        return None, [str(error)]
    except ModuleNotFoundError:
        if only_check:
            return _Method(settings_type_of(name), None), []
        raise
    return _Method(kind.settings_type, kind.capabilities), []


def _find_device(given: GivenRun, *, only_check: bool) -> tuple[str, str, list[str]]:
    """Device and dtype of the model."""
    try:
        from kgedit.llm.devices import resolve_device, resolve_dtype
    except ModuleNotFoundError:
        if only_check:
            return "cpu", "float32", []
        raise
    try:
        device = resolve_device(given.device or "auto")
        return device, resolve_dtype(given.dtype or "auto", device), []
    except ModelError as error:
        return "cpu", "float32", [str(error)]


def _find_timesteps(given: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Paths of files of edits and of named timesteps; those that do not exist are left out."""
    if not given:
        advice = "give --timestep FOLDER, once for each timestep in their order, or --edits FILE"
        return (), [f"timesteps is missing: {advice}"]
    paths: list[str] = []
    problems = []
    for name in given:
        try:
            found = Path(name) if Path(name).is_file() else find_timestep(name)
            paths.append(name if found == Path(name) else str(found))
        except TimestepError as error:
            problems.append(f"timesteps: {error}")
    if len(problems) > _MOST_LISTED:  # a stream before its export: all have the same reason
        problems = [f"{problems[0]} {len(problems) - 1} more of the timesteps cannot be found."]
    return tuple(paths), problems


def _read_settings(given: GivenRun, method: _Method | None) -> tuple[dict[str, Setting], list[str]]:
    if method is None:
        return {}, []
    settings, problems = read_settings(method.settings_type, given.settings or {}, method=str(given.method))
    return ({} if settings is None else dict(settings.values)), problems


def _read_ability(given: GivenRun) -> GivenAbility:
    backend = given.backend or DEFAULT_BACKEND
    return read_given_ability(
        [given.ability] if isinstance(given.ability, str) else given.ability or [],
        given.ability_tasks or [],
        limit=given.ability_limit,
        has_weights=backend == DEFAULT_BACKEND or backend not in BACKENDS or BACKENDS[backend].needs_weights,
    )


def _protocols_of(method: _Method | None) -> Sequence[Protocol]:
    """Protocols of a method, its default first; all if they are unknown."""
    return method.capabilities.protocols if method and method.capabilities else PROTOCOLS


def _trains_on_prompts(method: _Method | None) -> bool:
    return method is None or method.capabilities is None or method.capabilities.trains_on_prompts


def _problems_of_protocol(given: Protocol | None, method: _Method | None) -> Iterator[str]:
    possible = _protocols_of(method)
    if given is not None and given not in possible:
        yield f"this method does not support the protocol '{given}'; it supports {', '.join(possible)}"


def _problems_of_model(given: str | None) -> Iterator[str]:
    if not given:
        yield "model is missing: give --model smollm2-135m, tiny, a folder or a name on the Hugging Face hub"


def _problems_of_evaluation(given: GivenRun, protocol: Protocol) -> Iterator[str]:
    if given.evaluate_every is not None and protocol != "sequential":
        yield f"evaluate_every is for the protocol 'sequential', not '{protocol}'"
    if given.evaluate_earlier and protocol == "single":
        yield "evaluate_earlier is for edits that accumulate; the protocol 'single' undoes each edit, so leave it out"
    if given.evaluate_sample is not None and protocol == "single":
        yield "evaluate_sample is for edits that accumulate; with the protocol 'single', give sample"


def _problems_of_answering(given: GivenRun, method: _Method | None, presets: Sequence[Preset]) -> list[str]:
    return _problems_of_backend(
        given.backend or DEFAULT_BACKEND,
        given.backend_url,
        model=given.model,
        capabilities=method.capabilities if method else None,
        presets=presets,
    )


def _problems_of_loading(given: GivenRun, method: _Method | None, device: str) -> Iterator[str]:
    if given.max_memory:
        try:
            parse_max_memory(given.max_memory)
        except SpecError as error:
            yield from error.problems
        if device != "cuda:all":
            yield "max_memory is for models that are spread: give --device cuda:all"
    if given.backend not in (None, DEFAULT_BACKEND):
        ignored = [name for name in ("max_memory", "quantize") if getattr(given, name)]
        yield from (f"{name} is for models that kgedit loads: leave out --backend {given.backend}" for name in ignored)
    if given.quantize and method and method.capabilities and not method.capabilities.takes_quantized_weights:
        yield (
            f"{given.method} computes with the model's weights, which 4 bits do not hold: leave out quantize, or take "
            "a method that leaves weights alone (lora, grace, rag, graph_rag, ike, prompt)"
        )


def _problems_of_selection(given: GivenRun, presets: Sequence[Preset]) -> list[str]:
    found = []
    judges_by = presets[0].metric if presets else ""
    if given.only_failed and presets and presets[0].axes and "update" not in presets[0].axes:
        found.append(f"only_failed asks for the update, which the first preset, {presets[0].name}, does not")
    if given.only_failed and judges_by in METRICS and not METRICS[judges_by].of_correctness:
        found.append(f"only_failed needs a first preset whose metric decides right or wrong; {judges_by} does not")
    if given.limit is not None and given.sample is not None:
        found.append("limit takes the first cases and sample draws them: give one of the two")
    if given.stratify is not None and given.sample is None:
        found.append("stratify is about a sample: give --sample N as well")
    if given.only_cases is not None and not Path(given.only_cases).is_file():
        found.append(f"only_cases: there is no file {given.only_cases}; give one with a case id a line")
    return found


def _problems_of_train_context(given: str | None) -> Iterator[str]:
    if given not in (None, ASKED):
        yield from (f"train_context: {problem}" for problem in problems_of_context(given))


def _problems_of_batch_size(given: int | None, protocol: Protocol, method: _Method | None) -> Iterator[str]:
    most = method.capabilities.most_edits_at_once if method and method.capabilities else None
    if protocol != "sequential":
        if given is not None and (protocol == "per_timestep" or given != 1):
            yield f"batch_size is for the protocol 'sequential'; '{protocol}' fixes it"
    elif most is not None and (given or 1) > most:
        yield f"this method takes at most {most} edits at once, not {given or 1}: lower batch_size"


DEFAULT_BACKEND = "transformers"


def _problems_of_backend(
    name: str, url: str | None, *, model: str | None, capabilities: Capabilities | None, presets: Sequence[Preset]
) -> list[str]:
    """Every reason why a backend cannot carry out a run.

    Args:
        url: Address of the server, if given.
        model: Name or folder, if known.
        capabilities: Capabilities of the method; None if unknown.
    """
    if name == DEFAULT_BACKEND:  # known to torch alone, which may be missing where a spec is checked
        return [] if url is None else ["backend_url is for a backend that asks a server: give --backend openai"]
    try:
        backend = BACKENDS[name]
    except UnknownNameError:
        return [unknown("backend", name, list(BACKENDS))]
    found = []
    if backend.needs_url and not url:
        found.append(f"the backend {name} needs the server's address: give --backend-url http://HOST:PORT/v1")
    if url and not backend.needs_url:
        found.append(f"the backend {name} asks no server: leave out --backend-url")
    package, extra = backend.package
    if find_spec(package) is None:
        found.append(str(MissingExtraError(package, extra)))
    forced = [preset.name for preset in presets if preset.is_forced]
    if forced and not backend.feeds_answers:
        found.append(
            f"the backend {name} does not report the probability of a given answer, which {', '.join(forced)} needs: "
            "ask in presets that decode, such as wild or wild_chat"
        )
    stopping = [preset.name for preset in presets if preset.stop_entropy is not None]
    if stopping and not backend.returns_distributions:
        found.append(
            f"the backend {name} does not return the distribution of the next token, which the stop_entropy of "
            f"{', '.join(stopping)} needs: take the backend {DEFAULT_BACKEND}, or leave out stop_entropy"
        )
    if not backend.needs_weights:
        found += _problems_of_serving(name, model, capabilities)
    return found


def _problems_of_serving(name: str, model: str | None, capabilities: Capabilities | None) -> list[str]:
    found = []
    if capabilities is not None and not capabilities.lives_in_prompts:
        found.append(
            f"this method edits the model itself, and the backend {name} answers with its own model: save the "
            "edited model (--save-model), serve its folder, and ask it with the method 'none'"
        )
    if model == "tiny":
        found.append(
            f"the built-in model tiny is trained at the start of each run, so the backend {name} cannot have it: give "
            f"a model that is served, or take the backend {DEFAULT_BACKEND}"
        )
    saved = Path(model or "") / "kgedit.json"
    if saved.is_file() and json.loads(saved.read_text(encoding="utf-8")).get("weights") != "model":
        found.append(
            f"{model} contains edits beside the weights, which the backend {name} does not read: take the backend "
            f"{DEFAULT_BACKEND}, or save a model that was edited by a method that changes weights"
        )
    return found
