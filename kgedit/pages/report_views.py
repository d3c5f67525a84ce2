"""Views of a report page, one for each comparable group and free preset, and parts that its figures share.

Numbers are those of the report's tables, arranged side by side: before and after, free and forced, kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from kgedit.analysis.leaderboard import empty_before
from kgedit.analysis.runs import Run, RunGroup, comparable_groups
from kgedit.analysis.tables import (
    COMPARED_STAGES,
    Estimate,
    Table,
    asked_axes,
    estimate,
    main_score,
    preset_scale,
    presets_of,
)
from kgedit.pages.marks import Figure
from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import Preset
from kgedit.records.scores import SHARE

UNEDITED = "unedited"
"""Name of the row of the unedited model."""


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """One axis under one preset, before any edit and directly after a timestep's own edits."""

    before: Estimate | None
    after: Estimate | None


@dataclass(frozen=True, slots=True)
class MethodView:
    """One run in a view.

    Attributes:
        name: Name that distinguishes it from the other runs of the view.
        run: The run; None means the unedited model, if no run is without edits.
        free: Scores by axis, free decoding; empty if the view has no free preset.
        forced: Scores by axis, teacher forcing.
        kept: Share of unchanged unrelated answers, under the view's free preset, or the forced one if it has none.
        empty: Share of empty update answers, before and after.
        is_baseline: Whether it is the unedited model, so that no score differs from before.
    """

    name: str
    run: Run | None
    free: dict[Axis, BeforeAfter]
    forced: dict[Axis, BeforeAfter]
    kept: Estimate | None
    empty: BeforeAfter
    is_baseline: bool

    @property
    def shown(self) -> dict[Axis, BeforeAfter]:
        """Score that it is ranked by: free answers, or forced ones if there are none."""
        return self.free or self.forced


@dataclass(frozen=True, slots=True)
class View:
    """Comparable runs, evaluated under one free preset.

    Attributes:
        key: Unique key on the page, such as "1.wild".
        group: Number of the group, from 1.
        runs: Runs of the group, in report order.
        run_keys: Unique keys of these runs on the page.
        free: The free preset; None if the group has none.
        forced: The preset under teacher forcing; None if there is none.
        axes: Axes evaluated under either preset.
        methods: Methods by descending update score, the unedited model last.
    """

    key: str
    group: int
    runs: tuple[Run, ...]
    run_keys: tuple[str, ...]
    free: Preset | None
    forced: Preset | None
    axes: tuple[Axis, ...]
    methods: tuple[MethodView, ...]

    @property
    def shown_preset(self) -> str:
        """Name of the preset by which methods are ranked."""
        preset = self.free or self.forced
        return preset.name if preset else ""

    @property
    def edited(self) -> tuple[MethodView, ...]:
        """Methods without the unedited model."""
        return tuple(method for method in self.methods if not method.is_baseline)


def views_of(runs: Sequence[Run]) -> list[View]:
    """Views of the given runs, group by group, starting with the preset that the unedited model answers most often."""
    groups, keys = comparable_groups(runs), run_keys(runs)
    return [view for number, group in enumerate(groups, start=1) for view in _views_of_group(number, group, keys)]


def _views_of_group(number: int, group: RunGroup, keys: Mapping[Path, str]) -> list[View]:
    # Charts and sentences show shares; metrics on other scales are in the tables.
    presets = [preset for preset in presets_of(group.runs) if preset_scale(group.runs, preset.name) == SHARE]
    free = [preset for preset in presets if not preset.is_forced]
    forced = next((preset for preset in presets if preset.is_forced), None)
    ordered: list[Preset | None] = [*sorted(free, key=lambda preset: empty_before(group.runs, preset.name))]
    own_keys = tuple(keys[run.folder] for run in group.runs)
    return [_view(number, group.runs, own_keys, preset, forced) for preset in ordered or [None]]


def _view(
    number: int, runs: Sequence[Run], own_keys: tuple[str, ...], free: Preset | None, forced: Preset | None
) -> View:
    presets = [preset.name for preset in (free, forced) if preset]
    axes = tuple(axis for axis in AXES if any(axis in asked_axes(runs, preset) for preset in presets))
    names = run_names(runs)
    methods = [_method(name, run, free, forced, axes) for name, run in zip(names, runs, strict=True)]
    if not any(method.is_baseline for method in methods):
        methods += [unedited] if (unedited := _unedited(methods, axes)) else []
    key = f"{number}.{free.name if free else 'forced'}"
    return View(key, number, tuple(runs), own_keys, free, forced, axes, tuple(sorted(methods, key=_rank)))


def _rank(method: MethodView) -> tuple[bool, float, float, str]:
    return method.is_baseline, -_update(method.shown), -_update(method.forced), method.name


def _update(asked: dict[Axis, BeforeAfter]) -> float:
    found = asked.get("update")
    return found.after.mean if found and found.after else -1.0


def run_names(runs: Sequence[Run]) -> list[str]:
    """Shortest names that distinguish runs of a group: the method, with more details where needed."""
    named_by = [
        (run.spec.method, run.spec.protocol, f"{run.scores.edits.edits:,} edits", f"seed {run.spec.seed}")
        for run in runs
    ]
    for parts in range(1, 5):
        names = [
            " ".join(part.replace("_", " ") if i else part for i, part in enumerate(one[:parts])) for one in named_by
        ]
        if len(set(names)) == len(names):
            break
    else:
        names = [run.folder.name for run in runs]
    counts = Counter(method for method, *_ in named_by)
    # The name suffices for a method that appears once, even if other methods appear twice.
    short = [one[0] if counts[one[0]] == 1 else name for one, name in zip(named_by, names, strict=True)]
    seen: Counter[str] = Counter()
    unique = []
    for name in short:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def run_keys(runs: Sequence[Run]) -> dict[Path, str]:
    """Unique key of each run by its folder, usable as a file name: the folder's name, with ~2 and so on if taken."""
    names = {run.folder.name for run in runs}
    keys: dict[Path, str] = {}
    for folder in dict.fromkeys(run.folder for run in runs):
        numbered = (f"{folder.name}~{number}" for number in count(2))
        candidates = chain([folder.name], (key for key in numbered if key not in names))
        keys[folder] = next(key for key in candidates if key not in keys.values())
    return keys


def _method(name: str, run: Run, free: Preset | None, forced: Preset | None, axes: Sequence[Axis]) -> MethodView:
    own_free = _by_axis(run, free, axes)
    own_forced = _by_axis(run, forced, axes)
    preset = free or forced
    kept = run.pooled("own", "locality", preset.name).get("unchanged") if preset else None
    before, after = (
        run.pooled(stage, "update", preset.name).get("empty") if preset else None for stage in COMPARED_STAGES
    )
    return MethodView(
        name=name,
        run=run,
        free=own_free,
        forced=own_forced,
        kept=estimate(kept),
        empty=BeforeAfter(estimate(before), estimate(after)),
        is_baseline=_is_unchanged(run),
    )


def _by_axis(run: Run, preset: Preset | None, axes: Sequence[Axis]) -> dict[Axis, BeforeAfter]:
    if preset is None:
        return {}
    found = {}
    for axis in axes:
        before, after = (main_score(run.pooled(stage, axis, preset.name)) for stage in COMPARED_STAGES)
        if before or after:
            found[axis] = BeforeAfter(estimate(before), estimate(after))
    return found


def _is_unchanged(run: Run) -> bool:
    """Whether all scores after the edits equal those before."""
    known = {
        (score.axis, score.preset, score.metric): score.mean
        for score in run.scores.scores
        if score.stage == "before" and score.timestep is None
    }
    after = [score for score in run.scores.scores if score.stage == "own" and score.timestep is None]
    same = all(score.mean == known.get((score.axis, score.preset, score.metric), score.mean) for score in after)
    unchanged = all(score.mean == 1.0 for score in after if score.metric == "unchanged")
    return bool(after) and bool(known) and same and unchanged


def _unedited(methods: Sequence[MethodView], axes: Sequence[Axis]) -> MethodView | None:
    """The model before any edit as a separate row; None if it was never evaluated."""

    def before(of: str) -> dict[Axis, BeforeAfter]:
        found: dict[Axis, BeforeAfter] = {}
        for axis in axes:
            asked = [getattr(method, of).get(axis) for method in methods]
            known = next((one.before for one in asked if one and one.before), None)
            if known:
                found[axis] = BeforeAfter(known, known)
        return found

    free, forced = before("free"), before("forced")
    if not free and not forced:
        return None
    empty = next((method.empty.before for method in methods if method.empty.before), None)
    return MethodView(UNEDITED, None, free, forced, None, BeforeAfter(empty, empty), is_baseline=True)


AXIS_NAMES: dict[Axis, str] = {
    "update": "Update",
    "rephrase": "Rephrase",
    "personas": "Personas",
    "alias": "Alias",
    "crosslingual": "Another language",
    "mhop": "Two hops",
    "mhop_rephrase": "Two hops, rephrased",
    "hop": "Single hops of chains",
    "consequence": "Consequence",
    "locality": "Locality",
    "random_locality": "Random neighbours",
}
"""Axis -> name in headings."""

ASKED_AXES: tuple[Axis, ...] = (
    *("update", "rephrase", "personas", "alias", "crosslingual"),
    *("mhop", "mhop_rephrase", "hop", "consequence"),
)
"""Axes on which an edit should have an effect; on locality it should have none."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure with the tables of its numbers.

    Attributes:
        section: Section of the page.
        figure: The drawing.
        tables: Tables of the report that contain the same numbers.
        choice: Name in the section's list of choices; "" if the section shows all its figures.
    """

    section: str
    figure: Figure
    tables: tuple[Table, ...] = ()
    choice: str = ""


def in_days(timestep: str) -> str:
    """A timestep's name as two dates; other names unchanged."""
    parts = timestep.split("_")[:2]
    return " → ".join(f"{p[:4]}-{p[4:6]}-{p[6:]}" if len(p) == 8 and p.isdigit() else p for p in parts)
