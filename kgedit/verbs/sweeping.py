"""Sweeps: many runs from one spec, with one report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.extras import names_extra
from kgedit.resources import home as home_folder
from kgedit.resources import use_home
from kgedit.verbs.home import Home, folder_of

if TYPE_CHECKING:
    from kgedit.runs.runner import RunProgress
    from kgedit.runs.sweeps.execution import SweptRun
    from kgedit.runs.sweeps.planning import PlannedRun, SweepPlan
    from kgedit.verbs.reports import Report


@dataclass(frozen=True, slots=True, repr=False)
class Sweep:
    """Runs of a sweep, planned or finished.

    Attributes:
        folder: Folder with one subfolder per run, report.md and report.csv.
        runs: Runs in the order of work, each with its state, its questions, and its error if it failed.
        excluded: Number of combinations left out by the spec's `exclude`.
        repeated: Number of combinations that are the same run as another one.
        report: Report on every finished run of the spec; None if there is none, and for a dry run.
    """

    folder: Path
    runs: tuple[SweptRun, ...]
    excluded: int
    repeated: int
    report: Report | None = None

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.runs):,} runs, {len(self.failed)} failed, in {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        """The report, if there is one, for notebooks."""
        return escape(repr(self)) if self.report is None else self.report._repr_html_()

    @property
    def failed(self) -> tuple[SweptRun, ...]:
        """Runs that failed."""
        return tuple(run for run in self.runs if run.error)


@names_extra
def sweep(
    spec: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    home: Home | str | Path | None = None,
    base: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
    dry_run: bool = False,
    overwrite: bool = False,
    track: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Sweep:
    """Carry out every run of a spec; the same call skips finished runs and resumes interrupted ones.

    Args:
        spec: A YAML file, the name of a built-in one (`kgedit sweep --list`), or its content as a mapping.
        out: Folder of all runs; None means a folder under `sweeps` in the home, named after the spec.
        home: See `run`; answers of the unedited model are shared through it.
        base: Fields of the run spec that precede those of the spec's own base.
        only: Patterns with * and ? for names of runs; empty means all.
        dry_run: Whether to only report what would be done.
        overwrite: Whether to start every run over.
        track: "trackio" or "wandb": logs each run's metrics there, as in `run`.
        progress: Called with the run and its stage, the number of finished steps, and their total.

    Returns:
        The runs; a failed run does not stop the others and has its error.

    Raises:
        SpecError: listing all errors of the spec, by line, and folders that contain other runs.
        TimestepError: if edits cannot be read.
    """
    from kgedit.runs.sweeps.counting import SweepCounter
    from kgedit.runs.sweeps.execution import choose_runs, execute, in_order_of_work, inspect_runs
    from kgedit.runs.sweeps.located_yaml import LocatedYaml, read_located
    from kgedit.runs.sweeps.planning import plan_sweep
    from kgedit.runs.sweeps.shipped import find_sweep

    source = LocatedYaml(spec) if isinstance(spec, Mapping) else read_located(find_sweep(spec))
    with use_home(folder_of(home)):
        plan = plan_sweep(source, base=base)
        folder = home_folder() / "sweeps" / (source.file.stem if source.file else "sweep") if out is None else Path(out)
        counter = SweepCounter()
        chosen = in_order_of_work(choose_runs(plan.runs, list(only)), counter)
        runs = inspect_runs(chosen, folder, counter, overwrite=overwrite)
        if not dry_run:
            runs = execute(runs, overwrite=overwrite, announce=_announcer(progress), track=track)
    made = None if dry_run else _report(plan, folder)
    return Sweep(folder, tuple(runs), plan.excluded, plan.repeated, made)


def _announcer(
    progress: Callable[[str, int, int], None] | None,
) -> Callable[[PlannedRun, int, int], RunProgress | None]:
    def announce(run: PlannedRun, number: int, count: int) -> RunProgress | None:
        if progress is None:
            return None
        return lambda stage, done, total: progress(f"{number}/{count} {run.name}: {stage}", done, total)

    return announce


def _report(plan: SweepPlan, folder: Path) -> Report | None:
    """Report on all finished runs of the whole sweep, even if only part of it was requested."""
    from kgedit.runs.sweeps.execution import is_finished
    from kgedit.verbs.reports import report

    finished = [folder / run.name for run in plan.runs if is_finished(folder / run.name)]
    return report(finished, out=folder, overwrite=True) if finished else None
