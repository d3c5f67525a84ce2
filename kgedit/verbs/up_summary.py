"""Summary of `up`: changes, prior knowledge of the models, their answers after the edits, and paths of the pages.

Numbers come from the timestep's manifest, the runs' scores and, for the old answers, the runs' answers under their free
preset. A few of these are shown verbatim, before and after; correctness does not affect the choice of examples.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kgedit import __version__
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate
from kgedit.checksums import decoding
from kgedit.clustered_statistics import clustered_interval
from kgedit.editing import METHODS
from kgedit.files import replace_file
from kgedit.metrics import METRICS
from kgedit.pages.charts import percent
from kgedit.pages.report_views import MethodView, View, views_of
from kgedit.records.answer_table import case_hash
from kgedit.records.runs import UNEDITED, Answer, ModelState, Preset, Selection
from kgedit.runs.run_files import old_answers, read_answers
from kgedit.timesteps.timestep import Timestep


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Number of changes between the two states, and of questions about them.

    Attributes:
        older: Day of the older state.
        newer: Day of the newer state.
        entities: Number of entities in the newer state.
        changed: Number of pairs of subject and property whose values differ.
        cases: Number of these that can be asked as questions.
        drawn: Number of these within the sample or limit.
        is_sample: Whether they were drawn at random.
        seed: Seed of the runs.
    """

    older: str
    newer: str
    entities: int
    changed: int
    cases: int
    drawn: int
    is_sample: bool
    seed: int


@dataclass(frozen=True, slots=True)
class MethodEffect:
    """Answers of one model before and after its edits.

    Attributes:
        method: Name of the editing method.
        model: Name of the model.
        changes: What the method changes, such as "weights of the model".
        drawn: Number of cases drawn for it.
        answered: Number of these that it already answered with the new value, which were left out; None if none are
            left out.
        edits: Number of edits applied.
        failed: Number of edits that could not be applied.
        preset: Preset with free generation; "" without one.
        free_metric: Metric of that preset.
        old_known: Share of update questions to which it gave the old answer before the edits.
        free_before: Share of update questions to which it gave the new answer before the edits.
        free: Share of update questions to which it gives the new answer after the edits.
        reworded: Likewise for reworded questions.
        forced: Share of the new answers' tokens matched with teacher forcing; None if not evaluated.
        kept: Share of unrelated questions whose answer did not change.
        seconds_per_edit: Wall time of the method per edit.
    """

    method: str
    model: str
    changes: str
    drawn: int
    answered: int | None
    edits: int
    failed: int
    preset: str
    free_metric: str
    old_known: Estimate | None
    free_before: Estimate | None
    free: Estimate | None
    reworded: Estimate | None
    forced: Estimate | None
    kept: Estimate | None
    seconds_per_edit: float | None


@dataclass(frozen=True, slots=True)
class UpSummary:
    """Summary of one call of `up`.

    Attributes:
        made: Inputs of the summary; the same inputs give the same summary.
        changes: Counts of the changes.
        effects: Effects, those with the most right answers first.
        examples: Some questions, with verbatim answers before and after.
        sentences: What changed, what the models knew before, what they answer after, damage, and paths of the pages.
        page: Path of the page of results.
        change_page: Path of the page of changes.
        runs: Folders of the runs.
    """

    made: dict[str, Any]
    changes: ChangeCounts
    effects: tuple[MethodEffect, ...]
    examples: tuple[AnsweredUpdate, ...]
    sentences: tuple[str, ...]
    page: Path
    change_page: Path
    runs: tuple[Path, ...]

    @staticmethod
    def made_of(timestep: Path, runs: Sequence[Path]) -> dict[str, Any]:
        """Inputs of a summary: version of kgedit, timestep and scores."""
        return {
            "kgedit": __version__,
            "timestep": _sha256(timestep / "timestep.json"),
            "scores": {run.name: _sha256(run / "scores.json") for run in runs},
        }


def summarize(timestep: Path, runs: Sequence[Run], *, page: Path, changes: Path) -> UpSummary:
    """Summarize the runs on a timestep; the same runs give the same summary."""
    counts = _counts(Timestep.open(timestep), runs[0])
    measured = _measure(runs)
    effects = tuple(effect for effect, _ in measured)
    examples = choose_examples([answers for _, answers in measured if answers], seed=counts.seed)
    sentences = (
        _what_changed(counts),
        _what_was_known(effects),
        _what_was_learned(effects),
        _damage(effects),
        f"Every answer, with charts and tables, is on the page {page}; what changed is on {changes.name} beside it.",
    )
    folders = tuple(run.folder for run in runs)
    made = UpSummary.made_of(timestep, folders)
    return UpSummary(made, counts, effects, tuple(examples), sentences, page, changes, folders)


def write_summary(path: Path, summary: UpSummary) -> Path:
    """Write a summary as JSON, atomically."""
    record = {
        "made_of": summary.made,
        "changes": asdict(summary.changes),
        "methods": [asdict(effect) for effect in summary.effects],
        "examples": [asdict(example) for example in summary.examples],
        "sentences": list(summary.sentences),
        "page": str(summary.page),
        "changes_page": str(summary.change_page),
        "runs": [str(run) for run in summary.runs],
    }
    return replace_file(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _counts(timestep: Timestep, run: Run) -> ChangeCounts:
    manifest, snapshots = timestep.manifest, timestep.manifest["snapshots"]
    return ChangeCounts(
        older=str(snapshots[0]["date"]),
        newer=str(snapshots[1]["date"]),
        entities=snapshots[1]["entities"],
        changed=manifest["funnel"]["changed"],
        cases=sum(manifest["cases"].values()),
        drawn=_selection(run).drawn,
        is_sample=run.spec.sample is not None,
        seed=run.spec.seed,
    )


def _selection(run: Run) -> Selection:
    path = run.folder / "selection.json"
    with decoding(path, fix="Give the run's command again: kgedit run-edit"):
        return msgspec.json.decode(path.read_bytes(), type=list[Selection])[0]


def _measure(runs: Sequence[Run]) -> list[tuple[MethodEffect, UpdateAnswers | None]]:
    """Effect of each run, with its free answers if it has some, those with the most right answers first.

    Runs trained in another format are in a separate view.
    """
    first_views = {view.group: view for view in reversed(views_of(runs))}
    found: dict[Path, tuple[MethodEffect, UpdateAnswers | None]] = {}
    for _, view in sorted(first_views.items()):
        for method in view.methods:
            if method.run is not None and method.run.folder not in found:
                answers = read_update_answers(method.run, view.free) if view.free else None
                found[method.run.folder] = _effect(view, method, method.run, answers), answers
    return sorted(found.values(), key=lambda one: (-_mean(one[0].free), -_mean(one[0].forced), one[0].method))


def _mean(share: Estimate | None) -> float:
    return -1.0 if share is None else share.mean


def _effect(view: View, method: MethodView, run: Run, answers: UpdateAnswers | None) -> MethodEffect:
    free, reworded, forced = method.free.get("update"), method.free.get("rephrase"), method.forced.get("update")
    selection = _selection(run)
    return MethodEffect(
        method=run.spec.method,
        model=run.model,
        # A run may come from a machine with a method that is not installed here.
        changes=METHODS[run.spec.method].capabilities.changes if run.spec.method in METHODS else "",
        drawn=selection.drawn,
        answered=selection.answered if run.spec.only_failed else None,
        edits=run.scores.edits.edits,
        failed=run.scores.edits.failed,
        preset=view.free.name if view.free else "",
        free_metric=view.free.metric if view.free else "",
        old_known=old_answers_known(answers) if answers else None,
        free_before=free.before if free else None,
        free=free.after if free else None,
        reworded=reworded.after if reworded else None,
        forced=forced.after if forced else None,
        kept=method.kept,
        seconds_per_edit=run.seconds_per_edit,
    )


def _what_changed(counts: ChangeCounts) -> str:
    if counts.drawn == counts.cases:
        used = "all of these were used"
    elif counts.is_sample:
        used = f"{counts.drawn:,} of these were drawn at random (seed {counts.seed})"
    else:
        used = f"{counts.drawn:,} of these were used"
    return (
        f"Between {counts.older} and {counts.newer}, {counts.changed:,} facts changed among {counts.entities:,} "
        f"entities. {counts.cases:,} of the changes can be asked as questions, and {used}."
    )


def _what_was_known(effects: Sequence[MethodEffect]) -> str:
    """Prior knowledge of each model, and which questions were left out as a result."""
    of_models = {effect.model: effect for effect in reversed(effects)}
    known = [_known(of_models[model]) for model in dict.fromkeys(effect.model for effect in effects)]
    left_out = [
        f"{one.model} already answered {one.answered:,} of the {one.drawn:,} questions with the new value, so these "
        "were left out."
        for one in reversed(of_models.values())
        if one.answered
    ]
    return " ".join([f"Before the edits, {'; '.join(known)}.", *left_out])


def _known(effect: MethodEffect) -> str:
    shares = [
        f"{percent(share.mean, n=share.n)} % of the {which}" + (f" (n = {share.n:,})" if share.n else "")
        for share, which in ((effect.old_known, "old answers"), (effect.free_before, "new ones"))
        if share
    ]
    if shares:
        return f"{effect.model} knew {' and '.join(shares)}"
    return f"{effect.model} was not asked to answer freely"


def _what_was_learned(effects: Sequence[MethodEffect]) -> str:
    learned = [
        f"{one.model} edited with {one.method} {'answers' if one.free else 'has'} {_with_interval(share)} of the "
        f"{'new facts' if one.free else 'tokens of the new answers under teacher forcing'}"
        + (f" and {_with_interval(one.reworded)} of the reworded questions" if one.reworded else "")
        for one in effects
        if (share := one.free or one.forced)
    ]
    return f"After the edits, {'; '.join(learned)}." if learned else "After the edits, no update question was asked."


def _with_interval(share: Estimate) -> str:
    if share.low is None or share.high is None:
        return f"{percent(share.mean, n=share.n)} % (n = {share.n:,})"
    interval = f"95 % interval {percent(share.low, n=share.n)} to {percent(share.high, n=share.n)} %"
    return f"{percent(share.mean, n=share.n)} % ({interval}, n = {share.n:,})"


def _damage(effects: Sequence[MethodEffect]) -> str:
    """Number of unrelated answers that each method changed: the cost of the edits."""
    changed = [
        f"{one.method}{f' ({one.changes})' if one.changes else ''} changed {round((1 - one.kept.mean) * one.kept.n):,} "
        f"of {one.model}'s {one.kept.n:,} answers to unrelated questions"
        for one in effects
        if one.kept and one.kept.n
    ]
    failed = [
        f" {one.method} could not apply {one.failed:,} of {one.edits + one.failed:,} edits to {one.model}."
        for one in effects
        if one.failed
    ]
    damage = (
        f"Damage: {'; '.join(changed)}." if changed else "Damage was not measured: no unrelated question was asked."
    )
    return damage + "".join(failed)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


EXAMPLES = 3
"""Number of questions whose answers are shown."""

Key = tuple[str, str]
"""Timestep and id of a case."""


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Answers of one model to a question.

    Attributes:
        model: Name of the model.
        method: Name of the editing method.
        before: Free answer before any edit.
        after: Free answer after the timestep's edits.
        right: Whether `after` is right by the metric of the preset.
    """

    model: str
    method: str
    before: str
    after: str
    right: bool


@dataclass(frozen=True, slots=True)
class AnsweredUpdate:
    """One update question with its answers.

    Attributes:
        question: Question text.
        target: Answer that the edit should produce.
        old_answers: Answers that were correct before; empty if the subject had no value.
        answers: One per run that has the case.
    """

    question: str
    target: str
    old_answers: tuple[str, ...]
    answers: tuple[AnswerPair, ...]


@dataclass(frozen=True, slots=True)
class UpdateAnswers:
    """Free answers of a run to its update questions, by case.

    Attributes:
        run: The run.
        preset: Free preset of the answers.
        before: Answers of the unedited model.
        after: Answers after all edits of the case's timestep.
    """

    run: Run
    preset: Preset
    before: Mapping[Key, Answer]
    after: Mapping[Key, Answer]

    @property
    def old_answers(self) -> dict[Key, tuple[str, ...]]:
        """Answers that were correct before the edit, for cases that have some."""
        known = old_answers(self.run.cases)
        return {key: old for key in self.before if (old := known.get(case_hash(*key)))}

    def is_right(self, answer: Answer) -> bool:
        """Whether an answer has the best value of the preset's metric."""
        metric = METRICS[self.preset.metric]
        return metric.judge(answer, None) == (metric.maximum if metric.higher_is_better else metric.minimum)


def read_update_answers(run: Run, preset: Preset) -> UpdateAnswers:
    """Read the answers of a run under one preset, without those of other model states."""
    before: dict[Key, Answer] = {}
    after: dict[Key, Answer] = {}
    for answer in read_answers(run.folder):
        if (answer.axis, answer.preset) != ("update", preset.name):
            continue
        key = (answer.timestep, answer.case_id)
        if answer.model_state == UNEDITED:
            before[key] = answer
        elif answer.model_state == ModelState(answer.timestep):
            after[key] = answer
    return UpdateAnswers(run, preset, before, after)


def old_answers_known(answers: UpdateAnswers) -> Estimate | None:
    """Share of cases with an old answer for which the unedited model gave it.

    None if no case has an old answer, or the preset's metric does not measure correctness.
    """
    old = answers.old_answers
    if not old or not METRICS[answers.preset.metric].of_correctness:
        return None
    asked = [answers.before[key] for key in old]
    known = [
        any(answers.is_right(replace(answer, answers=(text,))) for text in old[answer.timestep, answer.case_id])
        for answer in asked
    ]
    values = np.array(known, dtype=np.float64)
    relations = {relation: number for number, relation in enumerate(dict.fromkeys(answer.relation for answer in asked))}
    clusters = np.array([relations[answer.relation] for answer in asked], dtype=np.int64)
    low, high = clustered_interval(values, clusters) or (None, None)
    return Estimate(float(values.mean()), low, high, len(values))


def choose_examples(runs: Sequence[UpdateAnswers], *, seed: int) -> list[AnsweredUpdate]:
    """Draw some cases by the seed from those that every run edited, with each run's answers.

    If the runs have no case in common, cases of the first run are drawn.
    """
    if not runs:
        return []
    of_first = [key for key in runs[0].before if key in runs[0].after]
    common = [key for key in of_first if all(key in run.before and key in run.after for run in runs)]
    keys = sorted(common or of_first)
    drawn = random.Random(f"examples {seed}").sample(keys, min(EXAMPLES, len(keys)))
    old = runs[0].old_answers
    return [
        AnsweredUpdate(
            question=runs[0].before[key].question,
            target=runs[0].before[key].answers[0],
            old_answers=old.get(key, ()),
            answers=tuple(_pairs(runs, key)),
        )
        for key in drawn
    ]


def _pairs(runs: Sequence[UpdateAnswers], key: Key) -> Iterator[AnswerPair]:
    for one in runs:
        if key in one.before and key in one.after:
            before, after = one.before[key], one.after[key]
            yield AnswerPair(
                one.run.model, one.run.spec.method, before.text.strip(), after.text.strip(), one.is_right(after)
            )
