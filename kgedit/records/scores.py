"""What scores.json of a run folder holds: everything that was measured from the run's answers and costs.

A score is named by what was asked (timestep, axis), how (preset), at which stage of the run, and the metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgedit.records.cases import Axis
from kgedit.records.runs import ModelState

EvaluationStage = Literal["before", "partial", "own", "retained", "ahead", "final"]
"""When a timestep's questions were asked:

before: of the unedited model. partial: after some of a timestep's edits, over those and, where asked, earlier ones.
own: just after that timestep's own edits. retained: after the edits of a later timestep.
ahead: after those of an earlier one only. final: after the last edits of the run, over all timesteps.
"""

POOLED_STAGES: tuple[EvaluationStage, ...] = ("before", "own", "final")
"""Stages for which there is also a score over the questions of all timesteps together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScale:
    """Range and direction that a metric declares.

    Attributes:
        minimum: Lowest value; None where there is none.
        maximum: Highest value; None where there is none.
        higher_is_better: Direction.
    """

    minimum: float | None
    maximum: float | None
    higher_is_better: bool

    @property
    def is_share(self) -> bool:
        """Whether values are shares, or differences of shares, and therefore shown in percent."""
        return self.minimum is not None and self.minimum >= -1 and self.maximum is not None and self.maximum <= 1


SHARE = MetricScale(minimum=0.0, maximum=1.0, higher_is_better=True)
"""Scale of shares: of right answers, of matching tokens, of unchanged answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Mean of one metric over one group of questions.

    Attributes:
        stage: When the questions were asked.
        model_state: The edits that the model had received; None where timesteps are pooled.
        timestep: Timestep of the questions; None where all are pooled.
        axis: Axis of the probes.
        preset: Preset asked under.
        metric: Name in the registry of metrics.
        main: Whether it is the preset's own metric; the others are measured beside it.
        n: Answers that the metric could judge.
        relations: Different properties among them, the clusters of the interval.
        mean: Their mean; for the share metrics 0.25 means 25 %.
        low: Lower end of the 95 % interval clustered by relation; with a single relation its answers are taken as
            independent. None with a single answer.
        high: Upper end.
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
        preset: Preset asked under.
        matrix: Row i, column j: mean on timestep j after learning timesteps up to i; None where not asked.
        forgetting: Mean over timesteps but the last of the best score so far less the last one; None if not asked.
        backward_transfer: Mean over timesteps but the last of the last score less the one after their own edits.
    """

    axis: Axis
    preset: str
    matrix: tuple[tuple[float | None, ...], ...]
    forgetting: float | None
    backward_transfer: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalScore:
    """How often a retrieval method put the needed facts into the prompt (WikiBigEdit, figure 6).

    Attributes:
        last_timestep: Timestep whose edits were the last.
        timestep: Timestep of the questions.
        axis: Axis of the probes; only those of TWO_HOP_AXES have a second hop.
        preset: Preset asked under.
        n: Questions.
        first_hop: Share whose retrieved cases include the case itself.
        second_hop: Share that include the second hop's case; None if no question has one.
        both_hops: Share that include both.
        accuracy_when_found: Mean of the preset's metric where all the hops needed were found; None if never.
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
    """What asking cost under one preset, before any edit or after.

    Attributes:
        preset: Preset asked under.
        edited: Whether the model had received edits.
        questions: Questions that the model was asked.
        cached: Questions whose replies an earlier run had left in the cache: they count in none of the other numbers.
        seconds: Wall time of asking.
        prompt_tokens: Tokens of all prompts.
        new_tokens: Tokens generated or fed.
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
    """How well one state of the model predicts a text: its general ability.

    Attributes:
        model_state: The edits that the model had received.
        text: Name of the text.
        text_sha256: Of the text; scores compare where it is the same.
        measured: How often: once, or after each edit of the protocol "single".
        perplexity: exp of the mean negative log-likelihood of a token; the median where measured several times.
        worst_perplexity: The highest.
        bits_per_byte: Negative log2-likelihood of the text by its UTF-8 bytes, the median likewise: does not depend on
            the tokenizer.
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
    """One metric of a task of lm-evaluation-harness for one state of the model.

    Attributes:
        model_state: The edits that the model had received.
        task: Name of the task.
        metric: As the harness names it.
        version: Of the task; values of different ones do not compare.
        n: Documents.
        measured: How often: once, or after each edit of the protocol "single".
        value: The metric; the mean where measured several times.
        error: Its standard error over documents; None where the harness tells none, or it was measured several times.
        worst: The worst of several; None where it is not known whether more is better.
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
    """What the edits cost.

    Attributes:
        edits: Different cases that were applied.
        failed: Different cases that were given and could not be applied.
        calls: Calls of the method.
        seconds: Wall time of all calls.
        cpu_seconds: Their processor time.
        edits_given: Edits in all calls; with a call repeated after an interruption more than `edits`.
        peak_memory_bytes: Highest peak of any call.
        preparation_seconds: Wall time of what the method did before the first edit.
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
    """How often a rule and the judge say the same of an answer.

    Attributes:
        preset: Preset asked under.
        rule: Name of the metric; token_f1 counts as right from 0.5 on.
        n: Answers that both judged.
        share: Of these, those on which they agree.
        low: Lower end of the 95 % interval of the share, clustered by relation; None with a single answer.
        high: Upper end.
        kappa: Cohen's kappa: agreement beyond chance; None where either says the same of every answer.
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
    """Who judged a run's free answers, and what the judge could make of them.

    Attributes:
        judge: Model.
        where: Address of its server, or "local".
        prompt_sha256: Of its instructions.
        judged: Distinct answers with a verdict; the same text to the same question is judged once.
        unjudged: Reason -> distinct answers without one; they count in no score.
        agreement: With the rules, for each preset.
    """

    judge: str
    where: str
    prompt_sha256: str
    judged: int
    unjudged: dict[str, int]
    agreement: tuple[Agreement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What encoder the BERTScores of a run come from: those of different ones do not compare.

    Attributes:
        encoder: Name of its folder.
        fingerprint: Digest of its configuration, tokenizer and weights.
        layer: Hidden layer that was compared.
        idf: Whether rare tokens of the references weigh more.
        baseline_sha256: Of the file that scores were rescaled by; None for the cosines as they are.
        measured: Distinct answers that were measured.
        later: Distinct answers that the run got after that; they count in no such score.
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
    """The content of scores.json.

    Attributes:
        answers_sha256: Of the answers.jsonl that was scored.
        cases_sha256: Of the cases that were asked, by which runs on the same ones are found.
        train_context: Format that edits were trained in, as in RunSpec: scores of different ones do not compare.
        also: Metrics that were asked for beside those that every run is scored by.
        answers: Answers scored.
        repeated: Answers left out because the same question had been answered in the same state before.
        intervals: Method of all intervals.
        scales: Of every metric among the scores.
        timesteps: In the order in which they were learned; those never learned last.
        scores: Ordered by model state, timestep, axis, preset, metric (the preset's own first).
        retention: One for each axis and preset; empty with a single timestep.
        retrieval: Empty unless the method retrieves.
        speed: One for each preset, before and after editing.
        edits: Costs of editing.
        judging: Who judged; None where nobody has.
        encoding: What the BERTScores come from; None where there are none.
        ability: One for each state in which it was measured; empty where the run did not ask for it.
        ability_tasks: One for each state, task and metric, likewise.
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
