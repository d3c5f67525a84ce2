"""A run: its RunSpec, and what it was made with.

Answers (kgedit.records.answers) and costs (kgedit.records.measurements) can be imported from here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kgedit.records.answers import (
    UNEDITED,
    Answer,
    BertScore,
    JudgedAnswer,
    ModelState,
    Neighbour,
    with_judgement,
)
from kgedit.records.cases import Axis
from kgedit.records.measurements import AbilityMeasurement, EditCost, EditFailure, TaskMeasurement

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
    """A named way of asking.

    Attributes:
        name: "synthetic", "wild" or the user's own.
        context: Name of a file under prompts/contexts that turns a question into a prompt; "chat:NAME" for one as a
            user's turn.
        generation: "teacher_forcing" (the gold answer is fed, arg max read off) or "greedy".
        truncation: "gold_length", "newline_period" (stop at newline, end of text or "."), "newline" (without "."),
            "sentence" (newline, end of text or the end of the first sentence) or "end_of_text".
        max_new_tokens: Limit of free generation.
        metric: Name in the registry of metrics.
        shots: Known facts that are shown as answered questions ahead of every question.
        shots_seed: Which ones.
        wording: "question", or "cloze": update, generalization and neighbours are asked as clozes where they exist.
        axes: The only axes that are asked; () for all.
        stop_entropy: Free generation also ends before a token, other than the first, whose distribution over the
            vocabulary has a higher entropy than this, in nats (termination by token-level uncertainty: Mirage, section
            6.3); None for no such stop.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What came before the first edit: the content of prepared.json, written once.

    Attributes:
        seconds: Wall time of the method's preparation (training, statistics); less where it was found ready made.
        cpu_seconds: Its processor time.
        peak_memory_bytes: As in EditCost.
        settings: Every hyperparameter with the value that the method works with.
        published_for: The known model whose published values were looked at; None where it is not a known one.
        details: What the method works with beyond its settings, the data of its statistics included.
    """

    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    settings: dict[str, Setting]
    published_for: str | None
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """The model of a run, as it was before any edit.

    Attributes:
        name: As the user asked for it.
        class_name: Of transformers.
        revision: Commit on the hub, or version of the package that carries it, or "".
        fingerprint: Digest of its weights, configuration and tokenizer.
        parameters: How many it has.
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
        name: Of its edits, or the context's.
        sha256: Of its content.
        unused_fields: Fields of a file that are part of no case, each with the reason.
    """

    name: str
    sha256: str
    unused_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """What a run was made with: the content of environment.json, written once.

    Attributes:
        packages: Versions; None where a package is not installed.
        python: Its version.
        platform: Operating system and processor.
        device: What its maker calls it.
        threads: Of torch, on the CPU.
        git_commit: Of the checkout that kgedit ran from; None for an installed wheel.
        seed: The run's.
        model: Before any edit.
        source: Where the method is described.
        settings: The method's, resolved for the model.
        timesteps: In the order in which they are learned.
        contexts: Preset -> SHA-256 of its context as it is sent, with demonstrations and chat template.
        trained_in: Names and SHA-256 of the contexts that edits are trained in.
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
    """How many cases of a timestep each step of choosing left: an entry of selection.json.

    Attributes:
        timestep: Its name.
        cases: Cases of the file.
        named: Of these, those that `only_cases` names; all without it.
        drawn: Of these, those within the limit or in the sample.
        answered: Of these, those that the unedited model answers, left out by `only_failed`.
        edited: What is left.
        repeated: Edits of instances left out because another instance of the timestep has the same (MQuAKE).
        contradicted: Multi-hop questions, and questions about their single hops, left out because another edit of the
            timestep changes one of their facts.
    """

    timestep: str
    cases: int
    named: int
    drawn: int
    answered: int
    edited: int
    repeated: int = 0
    contradicted: int = 0


Order = Literal["random", "file"]
"""random: by the seed. file: as the file or the timestep has the cases, often by id, which puts relations together."""

Protocol = Literal["single", "sequential", "per_timestep"]
"""single: undo each edit. sequential: edits pile up, in batches. per_timestep: all edits of a timestep at once."""

PROTOCOLS: tuple[Protocol, ...] = ("single", "sequential", "per_timestep")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a run does, with every default filled in. Written as spec.yaml.

    Attributes:
        timesteps: Folders of exported timesteps, or JSON files of edits, in the order in which they are learned.
        model: Built-in name, folder, or name on the Hugging Face hub.
        method: Name in the registry of editing methods.
        settings: The method's hyperparameters, as far as they were given.
        protocol: How edits are given to the method.
        batch_size: Edits given together under "sequential"; 1 under "single", where the edits of an instance of MQuAKE
            are given together nevertheless; None under "per_timestep" (all).
        presets: Ways of asking; every probe is asked under each.
        train_context: Context that edits are trained in, or "asked" for each context of the presets; None for methods
            that train nothing.
        archive_as: What facts that ceased without a successor are edited to; None leaves them out.
        neighbours: At most so many locality probes of each case on either locality axis; None for what each timestep
            has by itself.
        two_hop_rephrases: Ask two-hop questions in other words as well, on an axis of their own.
        population: "repl": only cases of WikiFactDiff's replacement set; None for all.
        limit: Largest number of cases (MQuAKE: of instances) of each timestep, the first of the file; None for all.
        sample: So many cases (MQuAKE: instances) of each timestep, drawn by the seed; None for no sample.
        stratify: "relation": the sample has every relation in the share that the timestep has; None for plain chance.
        only_failed: Leave out what the unedited model answers already, by the first preset's metric.
        only_cases: File that names the only cases to take, before any sample; None for every case.
        order: How the chosen cases of a timestep are ordered: "random" by the seed, or "file" for the file's order, in
            which all runs were made that record none. Timesteps keep their order. Batches are cut from this order, so
            they are random by the seed, too.
        evaluate_earlier: Ask the cases of earlier timesteps again after each timestep.
        evaluate_every: Under "sequential": edits after which all edits so far (those of the timestep under way, and of
            earlier ones with `evaluate_earlier`) are asked, again and again; None for only at a timestep's end.
        checkpoint_every: Edits between two checkpoints within a timestep.
        batch_tokens: Most tokens, padding included, in one batch of questions.
        ability: Text whose perplexity is measured before and after the edits: "prose" for the one that kgedit has, or a
            file; None for no such measurement.
        ability_tasks: Tasks of lm-evaluation-harness that are measured then, by name or as YAML files.
        ability_limit: Documents of each of them; None for all.
        seed: Source of all randomness.
        device: "cpu", "cuda", "cuda:N", "cuda:all" or "mps".
        dtype: "float32", "bfloat16" or "float16".
        max_memory: Most memory of weights by device, under "cuda:all", as "0=20GiB,cpu=100GiB"; "" for what there is.
        trust_remote_code: Whether Python code that comes with the model may run.
        quantize: "4bit": weights are rounded as they are loaded; "" for none.
        backend: What answers: a name in BACKENDS.
        backend_url: Address of the server that it asks; None where it asks none.
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
