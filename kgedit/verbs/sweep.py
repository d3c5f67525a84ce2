"""Sweeps: many runs from one spec, with one report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kgedit.progress import Listener
from kgedit.resources import home as home_folder
from kgedit.resources import use_home
from kgedit.verbs.home import folder_of
from kgedit.verbs.options import AnyFolder, Names, OneOf, Verb, flag, function_of, options, python_only
from kgedit.verbs.report import report
from kgedit.verbs.shared_options import TRACKERS, InHome

if TYPE_CHECKING:
    from kgedit.runs.sweeps.execution import SweptRun
    from kgedit.runs.sweeps.planning import PlannedRun, SweepPlan
    from kgedit.verbs.report import Report


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


@options
class RunSweep(InHome, Verb[Sweep]):
    """Run a grid of runs, with one report.

    SPEC is a YAML file, or the name of a built-in one. Every run has a separate folder, named after what makes it
    different, such as rag-k=10-seed=0. The same command skips finished runs and resumes an interrupted one; a failed
    run does not stop the others. The unedited model is evaluated once for all of them. At the end, report.md and
    report.csv compare all finished runs. Options that are fields of a run spec, such as --model, replace those of
    SPEC's base.
    """

    spec: str | Path | Mapping[str, Any] = python_only(
        kw_only=False,
        help="A YAML file, the name of a built-in one (`kgedit sweep --list`), or its content as a mapping.",
    )
    base: Mapping[str, Any] | None = python_only(
        default=None, help="Fields of the run spec that precede those of the spec's own base."
    )
    only: Names = flag(default=(), metavar="NAME", help="Only runs whose name matches, with * and ?; repeat.")
    dry_run: bool = flag(
        default=False, help="List the runs with their numbers of edits and questions, without running them."
    )
    out: AnyFolder | None = flag(
        default=None, group="Output", help="Folder of all runs. Default: named after the spec, in the home's sweeps."
    )
    overwrite: bool = flag(default=False, group="Output", help="Start every run over.")
    track: Annotated[str, OneOf(TRACKERS)] | None = flag(
        default=None, group="Output", help="Log each run's metrics there, as run-edit does."
    )
    progress: Listener | None = python_only(
        default=None, help="Called with the run and its stage, the number of finished steps, and their total."
    )

    def run(self) -> Sweep:
        """Carry out every run of the spec.

        Returns:
            The runs; a failed run does not stop the others and has its error.

        Raises:
            SpecError: listing all errors of the spec, by line, and folders that contain other runs.
            TimestepError: if edits cannot be read.
        """
        from kgedit.runs.sweeps import LocatedYaml, find_sweep, read_located
        from kgedit.runs.sweeps.execution import (
            SweepCounter,
            choose_runs,
            execute,
            in_order_of_work,
            inspect_runs,
            under_former_names,
        )
        from kgedit.runs.sweeps.planning import plan_sweep

        source = LocatedYaml(self.spec) if isinstance(self.spec, Mapping) else read_located(find_sweep(self.spec))
        with use_home(folder_of(self.home)):
            plan = plan_sweep(source, base=self.base)
            folder = (
                home_folder() / "sweeps" / (source.file.stem if source.file else "sweep")
                if self.out is None
                else Path(self.out)
            )
            plan = replace(plan, runs=under_former_names(plan.runs, folder))
            counter = SweepCounter()
            chosen = in_order_of_work(choose_runs(plan.runs, list(self.only)), counter)
            runs = inspect_runs(chosen, folder, counter, overwrite=self.overwrite)
            if not self.dry_run:
                runs = execute(runs, overwrite=self.overwrite, announce=_announcer(self.progress), track=self.track)
        made = None if self.dry_run else _report(plan, folder)
        return Sweep(folder, tuple(runs), plan.excluded, plan.repeated, made)


sweep = function_of(RunSweep, name="sweep")


def _announcer(
    progress: Listener | None,
) -> Callable[[PlannedRun, int, int], Listener | None]:
    def announce(run: PlannedRun, number: int, count: int) -> Listener | None:
        if progress is None:
            return None
        return lambda stage, done, total: progress(f"{number}/{count} {run.name}: {stage}", done, total)

    return announce


def _report(plan: SweepPlan, folder: Path) -> Report | None:
    """Report on all finished runs of the whole sweep, even if only part of it was requested."""
    from kgedit.runs.sweeps.execution import is_finished

    finished = [folder / run.name for run in plan.runs if is_finished(folder / run.name)]
    return report(finished, out=folder, overwrite=True) if finished else None
