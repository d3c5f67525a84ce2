"""A run: its RunSpec, and the environment that it was made in.

Answers (kgedit.records.answers) and costs (kgedit.records.answers) can also be imported from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from kgedit.records.answers import (
    UNEDITED,
    AbilityMeasurement,
    Answer,
    BertScore,
    EditCost,
    EditFailure,
    JudgedAnswer,
    ModelState,
    Neighbour,
    TaskMeasurement,
    with_judgement,
)
from kgedit.records.cases import Axis

__all__ = [
    "PROTOCOLS",
    "UNEDITED",
    "AbilityMeasurement",
    "Answer",
    "BertScore",
    "EditCost",
    "EditFailure",
    "HashedInput",
    "JudgedAnswer",
    "ModelRecord",
    "ModelState",
    "Neighbour",
    "Order",
    "Preparation",
    "Preset",
    "Protocol",
    "RunEnvironment",
    "RunSpec",
    "Selection",
    "Setting",
    "TaskMeasurement",
    "with_judgement",
]

Setting = int | float | bool | str | None
"""Value of one hyperparameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named choice of context, generation, truncation and metric.

    Attributes:
        name: "synthetic", "wild" or the user's own.
        context: Name of a file under prompts/contexts that turns a question into a prompt; "chat:NAME" sends it as a
            user turn.
        generation: "teacher_forcing" (the target is fed and the arg max read) or "greedy".
        truncation: "gold_length", "newline_period" (stop at newline, end of text or "."), "newline" (without "."),
            "sentence" (newline, end of text or the end of the first sentence) or "end_of_text".
        max_new_tokens: Maximum number of generated tokens.
        metric: Name in the registry of metrics.
        shots: Number of known facts shown as answered questions before every question.
        shots_seed: Seed that selects them.
        wording: "question", or "cloze": update, generalization and neighbour probes use their clozes where they exist.
        axes: Axes to evaluate; () means all.
        stop_entropy: Generation also ends before a token, other than the first, whose distribution over the vocabulary
            has a higher entropy than this, in nats (termination by token-level uncertainty: Mirage, section 6.3); None
            disables this stop.
        thinking_tokens: Maximum number of tokens of reasoning before the answer; 0 means an answer without reasoning.
    """

    name: str
    context: str
    generation: str
    truncation: str
    max_new_tokens: int
    metric: str
    shots: int = 0
    shots_seed: int = 0
    wording: Literal["question", "cloze"] = "question"
    axes: tuple[Axis, ...] = ()
    stop_entropy: float | None = None
    thinking_tokens: int = 0

    @property
    def is_forced(self) -> bool:
        """Whether the target is fed, and the arg max at each of its tokens is judged."""
        return self.generation == "teacher_forcing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Preparation before the first edit: content of prepared.json, written once.

    Attributes:
        seconds: Wall time of the method's preparation (training, statistics); less if an existing one was reused.
        cpu_seconds: Processor time of the preparation.
        peak_memory_bytes: As in EditCost.
        settings: All hyperparameters with the values in use.
        published_for: Known model whose published values were looked up; None for an unknown model.
        details: Further inputs of the method, including the data of its statistics.
    """

    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    settings: dict[str, Setting]
    published_for: str | None
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """The model of a run before any edit.

    Attributes:
        name: Name as given by the user.
        class_name: Class in transformers.
        revision: Commit on the hub, version of the package that contains it, or "".
        fingerprint: Digest of its weights, configuration and tokenizer.
        parameters: Number of parameters.
    """

    name: str
    class_name: str
    revision: str
    fingerprint: str
    parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedInput:
    """A timestep, a file of edits, or a context.

    Attributes:
        name: Name of its edits or of the context.
        sha256: SHA-256 of the content.
        unused_fields: Fields of a file that are not part of any case, each with the reason.
    """

    name: str
    sha256: str
    unused_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """Environment of a run: content of environment.json, written once.

    Attributes:
        packages: Package -> version; None if it is not installed.
        python: Version of Python.
        platform: Operating system and processor.
        device: Name of the device as reported by its vendor.
        threads: Number of CPU threads of torch.
        git_commit: Commit of the checkout that kgedit ran from; None for an installed wheel.
        seed: Seed of the run.
        model: The model before any edit.
        source: Publication that describes the method.
        settings: Hyperparameters of the method, resolved for the model.
        timesteps: Timesteps in the order of learning.
        contexts: Preset -> SHA-256 of its context as sent, with demonstrations and chat template.
        trained_in: Names and SHA-256 of the contexts that edits were trained in.
    """

    packages: dict[str, str | None]
    python: str
    platform: str
    device: str
    threads: int
    git_commit: str | None
    seed: int
    model: ModelRecord
    source: str
    settings: dict[str, Setting]
    timesteps: tuple[HashedInput, ...]
    contexts: dict[str, str]
    trained_in: tuple[HashedInput, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Number of cases of a timestep left after each step of the selection: an entry of selection.json.

    Attributes:
        timestep: Name of the timestep.
        cases: Number of cases of the file.
        named: Number of these that `only_cases` names; all without it.
        drawn: Number of these within the limit or in the sample.
        answered: Number of these that the unedited model answers, left out by `only_failed`.
        edited: Number of cases left.
        repeated: Number of edits of instances left out because another instance of the timestep has the same (MQuAKE).
        contradicted: Number of multi-hop questions, and of questions about their single hops, left out because another
            edit of the timestep changes one of their facts.
        edited_before: Number of locality questions left out because an edit of this or an earlier timestep edits their
            fact; none with the protocol single, which undoes every edit.
        conflicting: Number of edits, before `only_failed`, whose fact another edit of the timestep gives an answer that
            they do not accept; only of facts without ids, and none with the protocol single.
        unknown_names: Names in `only_cases` that no case of the timestep has, and, if given without a timestep, no case
            of the run.
    """

    timestep: str
    cases: int
    named: int
    drawn: int
    answered: int
    edited: int
    repeated: int = 0
    contradicted: int = 0
    edited_before: int = 0
    conflicting: int = 0
    unknown_names: tuple[str, ...] = ()


Order = Literal["random", "file"]
"""random: by the seed. file: order of the file or timestep, often by id, so that relations are contiguous."""

Protocol = Literal["single", "sequential", "per_timestep"]
"""single: undo each edit. sequential: edits accumulate, in batches. per_timestep: all edits of a timestep at once."""

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Settings of a run, with every default filled in. Written as spec.yaml.

    Attributes:
        timesteps: Folders of exported timesteps, or JSON files of edits, in the order of learning.
        model: Built-in name, folder, or name on the Hugging Face hub.
        method: Name in the registry of editing methods.
        settings: Hyperparameters of the method that were given.
        protocol: How edits are given to the method.
        batch_size: Number of edits applied together with "sequential"; 1 with "single", except that the edits of an
            MQuAKE instance are always applied together; None with "per_timestep" (all).
        presets: Presets; every probe is evaluated under each.
        train_context: Context that edits are trained in, or "asked" for each context of the presets; None for methods
            without training.
        archive_as: Target of edits for facts that ended without a successor; None leaves them out.
        neighbours: Maximum number of locality probes per case on each locality axis; None means the default of each
            timestep.
        two_hop_rephrases: Whether two-hop questions are also asked in other words, on a separate axis.
        population: "repl" selects WikiFactDiff's replacement set; None means all cases.
        limit: Maximum number of cases (MQuAKE: of instances) per timestep, the first of the file; None means all.
        sample: Number of cases (MQuAKE: instances) to draw per timestep by the seed; None disables sampling.
        stratify: "relation": each relation has the same share in the sample as in the timestep; None means a simple
            random sample.
        only_failed: Whether to leave out cases that the unedited model already answers, by the first preset's metric.
        only_cases: File that names the cases to use, applied before any sample; None means every case.
        order: Order of a timestep's selected cases: "random" by the seed, or "file" for the file's order, which also
            applies to all runs that record no order. Timesteps keep their order. Batches are cut from this order, so
            they are random by the seed as well.
        evaluate_earlier: Whether to evaluate the cases of earlier timesteps again after each timestep.
        evaluate_sample: Number of cases of each timestep whose probes are evaluated, drawn by the seed and the same in
            every state; all cases are edited. None means all.
        evaluate_every: With "sequential": number of edits after which all edits so far (those of the current timestep,
            and of earlier ones with `evaluate_earlier`) are evaluated, repeatedly; None means only at the end of a
            timestep.
        checkpoint_every: Number of edits between two checkpoints within a timestep.
        batch_tokens: Maximum number of tokens, including padding, per batch of questions.
        ability: Text whose perplexity is measured before and after the edits: "prose" for the built-in one, or a file;
            None disables the measurement.
        ability_tasks: Tasks of lm-evaluation-harness measured at the same time, by name or as YAML files.
        ability_limit: Maximum number of documents per task; None means all.
        seed: Source of all randomness.
        device: "cpu", "cuda", "cuda:N", "cuda:all" or "mps".
        dtype: "float32", "bfloat16" or "float16".
        max_memory: Maximum memory of weights per device with "cuda:all", as "0=20GiB,cpu=100GiB"; "" means all
            available.
        trust_remote_code: Whether Python code from the model's repository may run.
        quantize: "4bit": weights are quantized on loading; "" disables it.
        backend: Name in BACKENDS of what answers.
        backend_url: Address of the backend's server; None for backends without one.
    """

    timesteps: tuple[str, ...]
    model: str
    method: str
    settings: dict[str, Setting]
    protocol: Protocol
    batch_size: int | None
    presets: tuple[Preset, ...]
    train_context: str | None
    limit: int | None
    archive_as: str | None = None
    neighbours: int | None = None
    two_hop_rephrases: bool = False
    population: Literal["repl"] | None = None
    sample: int | None = None
    stratify: Literal["relation"] | None = None
    only_failed: bool = False
    only_cases: str | None = None
    order: Order = "file"
    evaluate_earlier: bool
    evaluate_sample: int | None = None
    evaluate_every: int | None = None
    checkpoint_every: int
    batch_tokens: int
    ability: str | None = None
    ability_tasks: tuple[str, ...] = ()
    ability_limit: int | None = None
    seed: int
    device: str
    dtype: str
    max_memory: str = ""
    trust_remote_code: bool = False
    quantize: str = ""
    backend: str = "transformers"
    backend_url: str | None = None
