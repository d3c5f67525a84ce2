"""A run spec as given by YAML or options: every field is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import ErrorDetails

from kgedit.editing.hparams.settings import as_given, explain, unknown
from kgedit.errors import MissingExtraError
from kgedit.records.cases import Axis

_FromOne = Annotated[Annotated[int, Field(ge=1)] | None, as_given(int)]
_FromZero = Annotated[Annotated[int, Field(ge=0)] | None, as_given(int)]
_Path = Annotated[str, BeforeValidator(lambda given: str(given) if isinstance(given, Path) else given)]


def _quoted(given: object) -> object:
    """Refuse a number: YAML reads 20210104_20230227 as one."""
    if isinstance(given, int) and not isinstance(given, bool):
        digits = str(given)
        name = f"{digits[:8]}_{digits[8:]}" if len(digits) == 16 else digits
        raise ValueError(f"YAML reads a name of digits as the number {given}; put it in quotes, as '{name}'")
    return given


def _switch(given: object) -> object:
    """YAML reads a bare on or off as a boolean."""
    return {True: "on", False: "off"}.get(given, given) if isinstance(given, bool) else given


class GivenPreset(BaseModel):
    """A user-defined preset."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="what reports call it")
    context: str = Field(description="name of a context, or a file's path; with the prefix chat: as a user's turn")
    generation: Literal["teacher_forcing", "greedy"]
    truncation: Literal["gold_length", "newline_period", "newline", "sentence", "end_of_text"]
    max_new_tokens: Annotated[int, Field(ge=1, strict=True)] = 50
    metric: str = Field(description="name of a metric")
    shots: Annotated[
        int, Field(ge=0, strict=True, description="known facts shown before the question, as questions with answers")
    ] = 0
    shots_seed: Annotated[int, Field(ge=0, strict=True, description="which of them are shown")] = 0
    wording: Literal["question", "cloze"] = Field(
        "question", description="cloze: update, generalization and neighbours are asked as clozes"
    )
    axes: tuple[Axis, ...] = Field((), description="the only axes that are asked; all without it")
    stop_entropy: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = Field(
        None, description="end an answer before a token whose distribution has more entropy than this, in nats"
    )
    thinking_tokens: Annotated[int, Field(ge=0, strict=True)] = Field(
        0, description="maximum number of tokens of reasoning before the answer"
    )


_NamedOrOwn = Annotated[
    Annotated[str, Tag("name")] | Annotated[GivenPreset, Tag("own")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "own"),
]


class GivenRun(BaseModel):
    """A run spec as given by YAML or options; a missing or null field means the default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timesteps: Annotated[list[Annotated[_Path, BeforeValidator(_quoted)]] | None, BeforeValidator(_quoted)] = Field(
        None, description="Exported timesteps or files of edits, in order."
    )
    model: str | None = Field(None, description="smollm2-135m, tiny, a folder, or a name on the Hugging Face hub.")
    method: str | None = Field(None, description="Name of an editing method (kgedit methods).")
    settings: dict[str, Any] | None = Field(None, description="Hyperparameters of the method.")
    protocol: Literal["single", "sequential", "per_timestep"] | None = Field(
        None, description="single, sequential or per_timestep. Default: the method's."
    )
    batch_size: _FromOne = Field(None, description="Number of edits applied together with 'sequential'. Default: 1.")
    presets: Annotated[list[_NamedOrOwn], Field(min_length=1)] | None = Field(
        None,
        description="Names of presets (kgedit presets). Default: synthetic and wild, or wild_chat for a "
        "model with a chat template.",
    )
    thinking: Annotated[Literal["off", "on"] | None, BeforeValidator(_switch)] = Field(
        None,
        description="on: the model reasons before it answers in a chat; off: in no preset. Default: that of each "
        "preset (thinking_chat).",
    )
    thinking_tokens: _FromOne = Field(None, description="Maximum number of tokens of reasoning. Default: 1024.")
    train_context: str | None = Field(
        None,
        description="Format that edits are trained in: a context, or asked for those of the presets. "
        "Default: question_only.",
    )
    archive_as: str | None = Field(
        None,
        description="Target of edits that archive facts of a WikiFactDiff file, such as 'no one'. Default: "
        "they are left out.",
    )
    neighbours: _FromOne = Field(
        None, description="Of a WikiFactDiff timestep, ask N nearest and N random neighbours of each case. Default: 1."
    )
    two_hop_rephrases: Annotated[bool | None, as_given(bool)] = Field(
        None, description="Also ask reworded two-hop questions, on a separate axis."
    )
    population: Literal["all", "repl"] | None = Field(
        None, description="repl: only WikiFactDiff's replacement set, WFD_repl. Default: all."
    )
    limit: _FromOne = Field(None, description="At most N cases of each timestep.")
    sample: _FromOne = Field(None, description="N cases of each timestep, drawn by the seed.")
    stratify: Literal["relation"] | None = Field(None, description="relation: a sample with each relation's share.")
    only_failed: Annotated[bool | None, as_given(bool)] = Field(
        None, description="Leave out what the unedited model answers right, by the first preset's metric."
    )
    only_cases: _Path | None = Field(
        None, description="Only these case ids, one per line, as in edited_cases.txt of another run."
    )
    order: Literal["random", "file"] | None = Field(
        None,
        description="Order of a timestep's edits: random by the seed, or the file's. Default: random, "
        "under 'single' file.",
    )
    evaluate_earlier: Annotated[bool | None, as_given(bool)] = Field(
        None, description="Ask earlier timesteps again after each one."
    )
    evaluate_sample: _FromOne = Field(
        None, description="Edit all cases, but ask about N of each timestep, drawn by the seed."
    )
    evaluate_every: _FromOne = Field(None, description="Ask all edits so far after every N edits ('sequential').")
    checkpoint_every: _FromOne = Field(None, description="Edits between two checkpoints. Default: 50.")
    batch_tokens: _FromOne = Field(
        None, description="Maximum number of tokens per batch of questions. Default: 4096, on a GPU 32768."
    )
    ability: _Path | list[_Path] | None = Field(
        None,
        description="Measured before and after: perplexity of the prose that kgedit has (prose) or of a "
        "text file; lm-eval:TASK, by name or YAML file.",
    )
    ability_tasks: list[_Path] | None = Field(None, description="Tasks of lm-evaluation-harness, without lm-eval:.")
    ability_limit: _FromOne = Field(None, description="Maximum number of documents per task. Default: all.")
    seed: _FromZero = Field(None, description="Source of all randomness. Default: 0.")
    device: str | None = Field(None, description="auto, cpu, cuda, cuda:N, cuda:all or mps. Default: auto.")
    dtype: str | None = Field(None, description="auto, float32, bfloat16 or float16. Default: auto.")
    max_memory: str | None = Field(
        None, description="Maximum memory of weights with cuda:all: 0=20GiB,1=40GiB,cpu=100GiB."
    )
    trust_remote_code: Annotated[bool | None, as_given(bool)] = Field(
        None, description="Run code that comes with the model. It can do whatever its author wants."
    )
    quantize: Literal["4bit"] | None = Field(
        None, description="4bit: round weights to 4 bits (bitsandbytes, NF4); for lora, grace, prompts."
    )
    backend: str | None = Field(None, description="What answers: transformers, vllm or openai. Default: transformers.")
    backend_url: str | None = Field(None, description="The server of the backend openai, as http://127.0.0.1:8000/v1.")


def read_given(raw: Mapping[str, Any]) -> tuple[GivenRun, list[str]]:
    """Parse the valid fields, and list the problems of the others."""
    try:
        return GivenRun.model_validate(dict(raw)), []
    except ValidationError as error:
        errors = error.errors()
    wrong = {item["loc"][0] for item in errors}
    rest = {name: value for name, value in raw.items() if name not in wrong}
    return GivenRun.model_validate(rest), [_problem(item, raw) for item in errors]


def _problem(item: ErrorDetails, raw: Mapping[str, Any]) -> str:
    name, *inner = item["loc"]
    if name == "presets" and inner:
        return _preset_problem(item, raw["presets"][inner[0]])
    if item["type"] == "extra_forbidden":
        return unknown("field", name, list(GivenRun.model_fields))
    return f"{name}: {explain(item)}"


def _preset_problem(item: ErrorDetails, given: object) -> str:
    path = [str(part) for part in item["loc"][3:]]
    if not isinstance(given, Mapping) or not path:
        return f"the preset {given!r} is not a name, nor a mapping of {', '.join(GivenPreset.model_fields)}"
    if item["type"] == "extra_forbidden":
        return f"preset '{given.get('name')}': {unknown('field', path[0], list(GivenPreset.model_fields))}"
    problem = f"{path[0]} is missing" if item["type"] == "missing" else f"{path[0]}: {explain(item)}"
    return f"preset '{given.get('name')}': {problem}"


TASK = "lm-eval:"
"""Prefix of the name or file of a task."""

_PROSE = "prose"


@dataclass(frozen=True, slots=True)
class GivenAbility:
    """Requested measurements.

    Attributes:
        text: "prose" or a file; None means no text.
        tasks: Names and files of tasks.
        problems: Errors.
    """

    text: str | None
    tasks: tuple[str, ...]
    problems: tuple[str, ...]


def read_given_ability(
    given: Sequence[str], tasks: Sequence[str], *, limit: int | None, has_weights: bool
) -> GivenAbility:
    """Parse the texts and tasks of a spec.

    Args:
        given: `ability` of the spec: texts, and tasks prefixed with TASK.
        tasks: `ability_tasks` of the spec.
        limit: `ability_limit` of the spec.
        has_weights: Whether the model is loaded in this process.
    """
    texts = [name for name in given if not name.startswith(TASK)]
    every = tuple(dict.fromkeys([*(name.removeprefix(TASK) for name in given if name.startswith(TASK)), *tasks]))
    problems = []
    if len(texts) > 1:
        problems.append(f"ability: one text is measured, not {', '.join(texts)}; put them into one file")
    for text in texts:
        if text != _PROSE and not Path(text).is_file():
            problems.append(
                f"ability: there is no file {text}; give a text, {_PROSE} for the one that kgedit has, or {TASK}NAME "
                "for a task of lm-evaluation-harness"
            )
    for task in every:
        if not task or (task.endswith((".yaml", ".yml")) and not Path(task).is_file()):
            problems.append(f"ability: there is no task file {task}" if task else f"ability: {TASK} names no task")
    if every and find_spec("lm_eval") is None:
        problems.append(f"ability: {MissingExtraError('lm_eval', 'lm-eval')}")
    if limit is not None and not every:
        problems.append(f"ability_limit is about tasks: give --ability {TASK}NAME as well")
    if (texts or every) and not has_weights:
        problems.append("ability: a served model has no weights here to measure; leave it out")
    return GivenAbility(texts[0] if texts else None, every, tuple(problems))
