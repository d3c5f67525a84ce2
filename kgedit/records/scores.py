"""Content of scores.json of a run folder: all measurements from the run's answers and costs.

A score is identified by questions (timestep, axis), preset, stage of the run and metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgedit.records.cases import Axis
from kgedit.records.runs import ModelState

EvaluationStage = Literal["before", "partial", "own", "retained", "ahead", "final"]
"""When a timestep's questions were evaluated:

before: on the unedited model. partial: after some of a timestep's edits, over those and, if requested, earlier ones.
own: just after that timestep's own edits. retained: after the edits of a later timestep.
ahead: after those of an earlier timestep only. final: after the last edits of the run, over all timesteps.
"""

POOLED_STAGES: tuple[EvaluationStage, ...] = ("before", "own", "final")
"""Stages with an additional score over the questions of all timesteps together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScale:
    """Range and direction that a metric declares.

    Attributes:
        minimum: Lowest value; None if unbounded.
        maximum: Highest value; None if unbounded.
        higher_is_better: Whether higher values are better.
    """

    minimum: float | None
    maximum: float | None
    higher_is_better: bool

    @property
    def is_share(self) -> bool:
        """Whether values are shares, or differences of shares, and are therefore shown in percent."""
        return self.minimum is not None and self.minimum >= -1 and self.maximum is not None and self.maximum <= 1


SHARE = MetricScale(minimum=0.0, maximum=1.0, higher_is_better=True)
"""Scale of shares: of right answers, of matching tokens, of unchanged answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Mean of one metric over one group of questions.

    Attributes:
        stage: When the questions were evaluated.
        model_state: Edits that the model had received; None if timesteps are pooled.
        timestep: Timestep of the questions; None if all are pooled.
        axis: Axis of the probes.
        preset: Preset of the questions.
        metric: Name in the registry of metrics.
        main: Whether it is the preset's own metric rather than an additional one.
        n: Number of answers that the metric could score.
        relations: Number of different properties among them, the clusters of the interval.
        mean: Mean of their values; for the share metrics 0.25 means 25 %.
        low: Lower end of the 95 % interval clustered by relation; with a single relation its answers are treated as
            independent. None with a single answer.
        high: Upper end of the interval.
    """

    stage: EvaluationStage
    model_state: ModelState | None
    timestep: str | None
    axis: Axis
    preset: str
    metric: str
    main: bool
    n: int
    relations: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Lifelong editing in one matrix (WikiBigEdit, sections 4 and 5), by the preset's own metric.

    Attributes:
        axis: Axis of the probes.
        preset: Preset of the questions.
        matrix: Row i, column j: mean on timestep j after the edits of timesteps up to i; None if not evaluated.
        forgetting: Mean over all timesteps except the last of best score so far minus last score; None if not
            evaluated.
        backward_transfer: Mean over all timesteps except the last of last score minus score after the timestep's own
            edits.
    """

    axis: Axis
    preset: str
    matrix: tuple[tuple[float | None, ...], ...]
    forgetting: float | None
    backward_transfer: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalScore:
    """How often a retrieval method put the required facts into the prompt (WikiBigEdit, figure 6).

    Attributes:
        last_timestep: Last timestep whose edits were applied.
        timestep: Timestep of the questions.
        axis: Axis of the probes; only TWO_HOP_AXES have a second hop.
        preset: Preset of the questions.
        n: Number of questions.
        first_hop: Share of questions whose retrieved cases include the case itself.
        second_hop: Share whose retrieved cases include the second hop's case; None if no question has one.
        both_hops: Share whose retrieved cases include both.
        accuracy_when_found: Mean of the preset's metric where all required hops were found; None if they never were.
    """

    last_timestep: str
    timestep: str
    axis: Axis
    preset: str
    n: int
    first_hop: float
    second_hop: float | None
    both_hops: float | None
    accuracy_when_found: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Cost of evaluation under one preset, before or after editing.

    Attributes:
        preset: Preset of the questions.
        edited: Whether the model had received edits.
        questions: Number of questions sent to the model.
        cached: Number of questions answered from the cache of an earlier run; they count in none of the other numbers.
        seconds: Wall time of evaluation.
        prompt_tokens: Total number of prompt tokens.
        new_tokens: Number of tokens generated or fed.
    """

    preset: str
    edited: bool
    questions: int
    cached: int
    seconds: float
    prompt_tokens: int
    new_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityScore:
    """How well one model state predicts a text: its general ability.

    Attributes:
        model_state: Edits that the model had received.
        text: Name of the text.
        text_sha256: SHA-256 of the text; only scores on the same text are comparable.
        measured: Number of measurements: one, or one after each edit of the protocol "single".
        perplexity: exp of the mean negative log-likelihood per token; the median of several measurements.
        worst_perplexity: Highest perplexity of all measurements.
        bits_per_byte: Negative log2-likelihood of the text per UTF-8 byte, likewise the median. Does not depend on the
            tokenizer.
    """

    model_state: ModelState
    text: str
    text_sha256: str
    measured: int
    perplexity: float
    worst_perplexity: float
    bits_per_byte: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    """One metric of a task of lm-evaluation-harness for one model state.

    Attributes:
        model_state: Edits that the model had received.
        task: Name of the task.
        metric: Name of the metric in the harness.
        version: Version of the task; values of different versions are not comparable.
        n: Number of documents.
        measured: Number of measurements: one, or one after each edit of the protocol "single".
        value: Value of the metric; the mean of several measurements.
        error: Its standard error over documents; None if the harness reports none, or with several measurements.
        worst: Worst of several measurements; None if the direction of the metric is unknown.
    """

    model_state: ModelState
    task: str
    metric: str
    version: str
    n: int
    measured: int
    value: float
    error: float | None
    worst: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditTotals:
    """Cost of the edits.

    Attributes:
        edits: Number of different cases that were applied.
        failed: Number of different cases that could not be applied.
        calls: Number of calls of the method.
        seconds: Wall time of all calls.
        cpu_seconds: Processor time of all calls.
        edits_given: Number of edits in all calls; more than `edits` if a call was repeated after an interruption.
        peak_memory_bytes: Highest peak of any call.
        preparation_seconds: Wall time of the method's preparation before the first edit.
    """

    edits: int
    failed: int
    calls: int
    seconds: float
    cpu_seconds: float
    edits_given: int
    peak_memory_bytes: int
    preparation_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often a rule and the judge agree on an answer.

    Attributes:
        preset: Preset of the questions.
        rule: Name of the metric; token_f1 counts as right from 0.5.
        n: Number of answers that both could judge.
        share: Share of these on which they agree.
        low: Lower end of the 95 % interval of the share, clustered by relation; None with a single answer.
        high: Upper end of the interval.
        kappa: Cohen's kappa, agreement beyond chance; None if either gives the same verdict on every answer.
    """

    preset: str
    rule: str
    n: int
    share: float
    low: float | None
    high: float | None
    kappa: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The judge of a run's free answers, and its verdicts.

    Attributes:
        judge: Name of the model.
        where: Address of its server, or "local".
        prompt_sha256: SHA-256 of its instructions.
        judged: Number of distinct answers with a verdict; the same text for the same question is judged once.
        unjudged: Reason -> number of distinct answers without a verdict; they count in no score.
        agreement: Agreement with the rules for each preset.
    """

    judge: str
    where: str
    prompt_sha256: str
    judged: int
    unjudged: dict[str, int]
    agreement: tuple[Agreement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Encoder behind the BERTScores of a run; scores of different encoders are not comparable.

    Attributes:
        encoder: Name of its folder.
        fingerprint: Digest of its configuration, tokenizer and weights.
        layer: Hidden layer used for comparison.
        idf: Whether rare tokens of the references have more weight.
        baseline_sha256: SHA-256 of the file used to rescale scores; None means raw cosines.
        measured: Number of distinct answers with a BERTScore.
        later: Number of distinct answers added to the run since; they count in no BERTScore.
    """

    encoder: str
    fingerprint: str
    layer: int
    idf: bool
    baseline_sha256: str | None
    measured: int
    later: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScores:
    """Content of scores.json.

    Attributes:
        answers_sha256: SHA-256 of the scored answers.jsonl.
        cases_sha256: SHA-256 of the evaluated cases, used to find runs on the same cases.
        train_context: Format that edits were trained in, as in RunSpec; scores with different formats are not
            comparable.
        also: Requested metrics in addition to those computed for every run.
        answers: Number of answers scored.
        repeated: Number of answers left out because the same question was already answered in the same model state.
        intervals: Method used for all intervals.
        scales: Scale of every metric among the scores.
        timesteps: Timesteps in the order of learning; those never learned last.
        scores: Ordered by model state, timestep, axis, preset, metric (the preset's own first).
        retention: One per axis and preset; empty with a single timestep.
        retrieval: Empty unless the method retrieves.
        speed: One per preset, before and after editing.
        edits: Costs of editing.
        judging: Judge of the answers; None without one.
        encoding: Encoder behind the BERTScores; None without BERTScores.
        ability: One per model state in which it was measured; empty if the run did not request it.
        ability_tasks: One per model state, task and metric; empty if the run did not request it.
    """

    answers_sha256: str
    cases_sha256: str
    train_context: str | None
    also: tuple[str, ...]
    answers: int
    repeated: int
    intervals: str
    scales: dict[str, MetricScale]
    timesteps: tuple[str, ...]
    scores: tuple[Score, ...]
    retention: tuple[Retention, ...]
    retrieval: tuple[RetrievalScore, ...]
    speed: tuple[Speed, ...]
    edits: EditTotals
    judging: Judging | None = None
    encoding: Encoding | None = None
    ability: tuple[AbilityScore, ...] = ()
    ability_tasks: tuple[TaskScore, ...] = ()
