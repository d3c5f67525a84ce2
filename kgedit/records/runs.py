"""A run: its RunSpec, one Answer per question asked, one EditCost per edit or batch of edits.

Any score is the product of four choices: input, generation, truncation, metric (Mirage, section 3). An answer
names the first three and keeps the prompt and the text, so that every metric can be computed again from the file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from kgedit.records.cases import Axis
from kgedit.records.error_classes import ErrorClass

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


@dataclass(frozen=True, slots=True)
class ModelState:
    """Which edits a model had received when it was asked.

    Attributes:
        timestep: The last timestep that edits were applied of; None before any edit.
        edits: Number of its edits applied so far, where not all of them were; None for all.
    """

    timestep: str | None = None
    edits: int | None = None


UNEDITED = ModelState()
"""The state of a model before any edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """What a locality question is about.

    Attributes:
        subject: Id of the entity.
        label: Its label.
        similarity: To the edit's subject, the higher the nearer; None where nobody knows.
        popularity: ln(median monthly views + 1); None where nobody knows.
    """

    subject: str
    label: str
    similarity: float | None
    popularity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question asked of one state of the model. One line of answers.jsonl.

    Attributes:
        model_state: The edits that the model had received.
        timestep: Timestep that the case belongs to.
        case_id: The case.
        relation: Property of the case's fact: the cluster of every interval.
        axis: Axis of the probe.
        preset: Name of the preset asked under.
        context: The preset's input module.
        generation: The preset's generation module.
        truncation: The preset's truncation module.
        question: The bare question.
        prompt: As sent to the model.
        answers: Accepted answers, the gold one first.
        text: As generated and truncated; under teacher forcing the arg max at each of the correct answer's tokens.
        token_match: Share of gold tokens that stood at their index: arg max under teacher forcing, else generated.
        prompt_tokens: Length of the prompt in tokens.
        new_tokens: Tokens generated, or gold tokens fed.
        seconds: The question's share of the batch's wall time, by its tokens; 0 where the reply came from the cache.
        probability: Under teacher forcing, exp of the mean log-probability of the gold answer's tokens.
        old_probability: The same of the answer before the edit, of several the likeliest; None where there is none.
        retrieved: case_ids put into the prompt by a retrieval method, best first; empty otherwise.
        second_case_id: The case of a two-hop question's second fact, which retrieval must find too; None where that is
            no case, and on other axes.
        expires: Later timestep of the run that edits a fact behind the question; it is not asked from then on.
        neighbour: What a locality question is about; None on other axes.
        scenario: The case's, where it has scores of its own and the edited fact is asked for.
        static_probability: Of the answers that stay right, their mean probability; None where there is none.
        alternative_probability: Of the case's alternatives, likewise.
        highest_alternative: Of these, the highest.
    """

    model_state: ModelState
    timestep: str
    case_id: str
    relation: str
    axis: Axis
    preset: str
    context: str
    generation: str
    truncation: str
    question: str
    prompt: str
    answers: tuple[str, ...]
    text: str
    token_match: float | None
    prompt_tokens: int
    new_tokens: int
    seconds: float
    probability: float | None = None
    old_probability: float | None = None
    retrieved: tuple[str, ...] = ()
    second_case_id: str | None = None
    expires: str | None = None
    neighbour: Neighbour | None = None
    scenario: str | None = None
    static_probability: float | None = None
    alternative_probability: float | None = None
    highest_alternative: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BertScore:
    """How near a text is to its nearest reference by the embeddings of their tokens (Zhang et al. 2020).

    Attributes:
        precision: Of the text's tokens: mean cosine with the most similar token of the reference.
        recall: Of the reference's tokens: the same with the text's.
        f1: Their harmonic mean; 0 where neither is above 0.
    """

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer(Answer):
    """An answer with what models said of it, put together when a run is scored; answers.jsonl has none of it.

    Attributes:
        right: A judge's verdict; None where it gave none.
        error: What the judge says is wrong with the answer; None where it does not say.
        bertscore: What an encoder measured; None where none did.
    """

    right: bool | None = None
    error: ErrorClass | None = None
    bertscore: BertScore | None = None


_FIELDS = [field.name for field in fields(Answer)]


def with_judgement(
    answer: Answer,
    *,
    right: bool | None = None,
    error: ErrorClass | None = None,
    bertscore: BertScore | None = None,
) -> JudgedAnswer:
    """The answer with one more judgement; those that it has stay."""
    given = {"right": right, "error": error, "bertscore": bertscore}
    values: dict[str, Any] = {name: getattr(answer, name) for name in _FIELDS}
    for name, value in given.items():
        values[name] = getattr(answer, name, None) if value is None else value
    return JudgedAnswer(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFailure:
    """One case that a method could not apply, and why."""

    case_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCost:
    """One line of edits.jsonl: what one call of the method cost.

    Attributes:
        timestep: Timestep of the edits.
        case_ids: Edits applied together.
        seconds: Wall time of the call.
        cpu_seconds: Processor time of the call, over all threads: what wall time is on a machine without other work.
        peak_memory_bytes: Peak memory of the device (of the process on CPU) up to the end of the call.
        loss: Final training loss, or None where the method has none.
        failures: The cases among them that could not be applied; the others were.
    """

    timestep: str
    case_ids: tuple[str, ...]
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    loss: float | None = None
    failures: tuple[EditFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityMeasurement:
    """One line of ability.jsonl: how well one state of the model predicts a text that has nothing to do with the edits.

    Attributes:
        model_state: The edits that the model had received.
        case_id: Under "single" the case whose edit it had received; else None.
        text: Name of the text.
        text_sha256: Of the text.
        tokens: Tokens that were predicted.
        text_bytes: UTF-8 bytes of the text.
        loss: Mean negative log-likelihood of a token, in nats.
        seconds: Wall time.
    """

    model_state: ModelState
    case_id: str | None
    text: str
    text_sha256: str
    tokens: int
    text_bytes: int
    loss: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMeasurement:
    """One line of ability_tasks.jsonl: one metric of a task of lm-evaluation-harness for one state of the model.

    Attributes:
        model_state: The edits that the model had received.
        case_id: Under "single" the case whose edit it had received; else None.
        task: Name of the task.
        metric: As the harness names it.
        value: The metric over all documents.
        error: Its standard error; None where the harness tells none.
        n: Documents.
        version: Of the task.
        higher_is_better: None where the harness does not say.
    """

    model_state: ModelState
    case_id: str | None
    task: str
    metric: str
    value: float
    error: float | None
    n: int
    version: str
    higher_is_better: bool | None


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
class EditedModel:
    """The model of a run, as it was before any edit.

    Attributes:
        name: As the user asked for it.
        class_name: Of transformers.
        revision: Commit on the hub, or version of the package that carries it, or "".
        fingerprint: Hash of a sample of its weights.
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
    model: EditedModel
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
    """

    timestep: str
    cases: int
    named: int
    drawn: int
    answered: int
    edited: int


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
        batch_size: Edits given together under "sequential"; 1 under "single"; None under "per_timestep" (all).
        presets: Ways of asking; every probe is asked under each.
        train_context: Context that edits are trained in, or "asked" for each context of the presets; None for methods
            that train nothing.
        archive_as: What facts that ceased without a successor are edited to; None leaves them out.
        neighbours: At most so many locality probes of each case on either locality axis; None for what each timestep
            has by itself.
        two_hop_rephrases: Ask two-hop questions in other words as well, on an axis of their own.
        limit: At most so many cases of each timestep, in file order; None for all.
        sample: So many cases of each timestep, drawn by the seed, in file order; None for no sample.
        stratify: "relation": the sample has every relation in the share that the timestep has; None for plain chance.
        only_failed: Leave out what the unedited model answers already, by the first preset's metric.
        only_cases: File that names the only cases to take, before any sample; None for every case.
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
        device: "cpu", "cuda", "cuda:N" or "cuda:all".
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
    sample: int | None = None
    stratify: Literal["relation"] | None = None
    only_failed: bool = False
    only_cases: str | None = None
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
