"""What came of `up`, in three sentences: what changed, what the methods did to the answers, and where the pages are.

Every number is one of the timestep's manifest or of the report's page; nothing is measured here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from kgedit import __version__
from kgedit.analysis.cells import Estimate
from kgedit.analysis.runs import Run
from kgedit.benchmark.timestep import Timestep
from kgedit.checksums import decoding
from kgedit.files import replace_file
from kgedit.pages.charts.scales import percent
from kgedit.pages.report_views import MethodView, View, views_of
from kgedit.records.runs import Selection


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What changed between the two states, and what became of it.

    Attributes:
        older: Day of the older state.
        newer: Day of the newer one.
        entities: In the newer state.
        changed: Pairs of subject and property whose values differ.
        cases: Of these, those that can be asked for.
        drawn: Of these, those within the sample or limit.
        answered: Of these, those that the unedited model answers right; None where that made no difference.
        asked_under: The preset that told so.
        edited: Those that it was edited with.
    """

    older: str
    newer: str
    entities: int
    changed: int
    cases: int
    drawn: int
    answered: int | None
    asked_under: str
    edited: int


@dataclass(frozen=True, slots=True)
class MethodEffect:
    """What one method did to the answers.

    Attributes:
        method: Its name.
        model: The model's.
        edits: Edits applied.
        failed: Edits that it could not apply.
        free: Update questions that the edited model answers by itself; None where it was not asked so.
        free_before: The same before any edit.
        free_metric: What counts as an answer there.
        forced: The target's tokens under teacher forcing; None where it was not asked so.
        kept: Unrelated answers that are as before.
    """

    method: str
    model: str
    edits: int
    failed: int
    free: Estimate | None
    free_before: Estimate | None
    free_metric: str
    forced: Estimate | None
    kept: Estimate | None


@dataclass(frozen=True, slots=True)
class Summary:
    """All of it.

    Attributes:
        made: What it was made of: a summary of the same is the same.
        changes: What changed.
        effects: Best method first, as on the page.
        sentences: The three.
        page: The page of results.
        change_page: The page of changes.
        runs: Folders.
    """

    made: dict[str, Any]
    changes: ChangeCounts
    effects: tuple[MethodEffect, ...]
    sentences: tuple[str, str, str]
    page: Path
    change_page: Path
    runs: tuple[Path, ...]

    @staticmethod
    def made_of(timestep: Path, runs: Sequence[Path]) -> dict[str, Any]:
        """What a summary depends on: this version, the timestep and the scores."""
        return {
            "kgedit": __version__,
            "timestep": _sha256(timestep / "timestep.json"),
            "scores": {run.name: _sha256(run / "scores.json") for run in runs},
        }


def summarize(timestep: Path, runs: Sequence[Run], *, page: Path, changes: Path) -> Summary:
    """What came of the runs on a timestep; the same runs give the same summary."""
    counts = _counts(Timestep.open(timestep), runs[0])
    effects = _effects(runs)
    sentences = (
        _what_changed(counts, runs[0].model),
        _what_it_did(effects),
        f"Every answer, with charts and tables, is on the page {page}; what changed is on {changes.name} beside it.",
    )
    folders = tuple(run.folder for run in runs)
    return Summary(Summary.made_of(timestep, folders), counts, effects, sentences, page, changes, folders)


def write_summary(path: Path, summary: Summary) -> Path:
    """Write a summary as JSON, whole or not at all."""
    record = {
        "made_of": summary.made,
        "changes": asdict(summary.changes),
        "methods": [asdict(effect) for effect in summary.effects],
        "sentences": list(summary.sentences),
        "page": str(summary.page),
        "changes_page": str(summary.change_page),
        "runs": [str(run) for run in summary.runs],
    }
    return replace_file(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _counts(timestep: Timestep, run: Run) -> ChangeCounts:
    manifest, snapshots = timestep.manifest, timestep.manifest["snapshots"]
    path = run.folder / "selection.json"
    with decoding(path, fix="Give the run's command again: kgedit run-edit"):
        selected = msgspec.json.decode(path.read_bytes(), type=list[Selection])[0]
    return ChangeCounts(
        older=str(snapshots[0]["date"]),
        newer=str(snapshots[1]["date"]),
        entities=snapshots[1]["entities"],
        changed=manifest["funnel"]["changed"],
        cases=sum(manifest["cases"].values()),
        drawn=selected.drawn,
        answered=selected.answered if run.spec.only_failed else None,
        asked_under=run.spec.presets[0].name,
        edited=selected.edited,
    )


def _effects(runs: Sequence[Run]) -> tuple[MethodEffect, ...]:
    """Of each run once, the most right answers first; runs that were trained otherwise are in views of their own."""
    first_views = {view.group: view for view in reversed(views_of(runs))}
    effects = [
        _effect(view, method, method.run)
        for _, view in sorted(first_views.items())
        for method in view.methods
        if method.run is not None
    ]
    return tuple(sorted(effects, key=lambda one: (-_mean(one.free), -_mean(one.forced), one.method)))


def _mean(share: Estimate | None) -> float:
    return -1.0 if share is None else share.mean


def _effect(view: View, method: MethodView, run: Run) -> MethodEffect:
    free, forced = method.free.get("update"), method.forced.get("update")
    return MethodEffect(
        method=method.name,
        model=run.model,
        edits=run.scores.edits.edits,
        failed=run.scores.edits.failed,
        free=free.after if free else None,
        free_before=free.before if free else None,
        free_metric=view.free.metric if view.free else "",
        forced=forced.after if forced else None,
        kept=method.kept,
    )


def _what_changed(counts: ChangeCounts, model: str) -> str:
    drawn = "these" if counts.drawn == counts.cases else f"the {counts.drawn:,} of them that were drawn"
    if counts.answered is None:
        became = f"{drawn} were edited into {model}"
    else:
        became = (
            f"of {drawn}, {model} answered {counts.answered:,} right (asked under {counts.asked_under}) "
            f"and was edited with the other {counts.edited:,}"
        )
    return (
        f"Between {counts.older} and {counts.newer}, {counts.changed:,} facts changed among "
        f"{counts.entities:,} entities, and {counts.cases:,} of them can be asked for; {became}."
    )


def _what_it_did(effects: Sequence[MethodEffect]) -> str:
    if not effects:
        return "No method was run."
    best, *others = effects
    asked = [
        part
        for part in (
            best.free and f"{_told(best.free)} of the updates when it answers freely ({_before(best.free_before)})",
            best.forced and f"{_told(best.forced)} of the new answers' tokens when they are fed to it",
        )
        if part
    ]
    ahead = f" (the highest of {len(effects)} methods; the others are on the page)" if others else ""
    gained = f"{best.method}{ahead} gets {' and '.join(asked)}" if asked else f"{best.method} was asked no update"
    return f"{gained}; {_damage(best)}."


def _damage(best: MethodEffect) -> str:
    if best.kept is None or not best.kept.n:
        return "damage was not measured"
    n, low, high = best.kept.n, best.kept.low, best.kept.high
    changed = round((1 - best.kept.mean) * n)
    lost = Estimate(1 - best.kept.mean, None if high is None else 1 - high, None if low is None else 1 - low, n)
    return f"it changed {changed:,} of {n:,} answers that have nothing to do with the edits ({_interval(lost)})"


def _told(share: Estimate) -> str:
    n = f", n = {share.n:,}" if share.n else ""
    return f"{percent(share.mean, n=share.n)} % ({_interval(share)}{n})"


def _interval(share: Estimate) -> str:
    if share.low is None or share.high is None:
        return "no interval"
    return f"95 % interval {percent(share.low, n=share.n)} to {percent(share.high, n=share.n)} %"


def _before(share: Estimate | None) -> str:
    return "not asked before" if share is None else f"{percent(share.mean, n=share.n)} % before"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
