"""Steps of `up`: each is one call of the public API, with a test of whether its result exists.

A result exists if it is complete and was created from the same inputs: snapshots and timesteps record their inputs in
their manifest, runs in their spec and environment, pages in summary.json, which is written last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kgedit.sample
from kgedit.graph.status import browser_of_home
from kgedit.progress import Steps
from kgedit.resources import use_home
from kgedit.sample.generate import SNAPSHOT_DATES, write_world
from kgedit.store.snapshots import open_snapshot
from kgedit.verbs.describe import describe_page
from kgedit.verbs.exporting import is_exported
from kgedit.verbs.home import Home
from kgedit.verbs.live_progress import by_stage
from kgedit.verbs.load_dump import is_loaded
from kgedit.verbs.report import report
from kgedit.verbs.run_edit import read_run, run
from kgedit.verbs.up_checks import check_has_cases
from kgedit.verbs.up_inputs import DatedState, RunFields, UpInputs
from kgedit.verbs.up_summary import UpSummary, summarize, write_summary

PAGE, CHANGES, SUMMARY = "report.html", "changes.html", "summary.json"
"""Files in the folder of pages."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of `up`.

    Attributes:
        kind: Kind of step, which selects its estimate.
        name: Name of the step, as shown by progress and --dry-run.
        is_done: Tests whether its result exists; reads little and starts nothing.
        carry_out: Carries out the step.
        state: State to load, if it is a load.
        run: Spec without timesteps, if it is a run.
        is_beside: Whether later steps can be taken meanwhile, except the last one.
    """

    kind: str
    name: str
    is_done: Callable[[], bool]
    carry_out: Callable[[Steps], object]
    state: DatedState | None = None
    run: RunFields = field(default_factory=dict)
    is_beside: bool = False


def steps_of(inputs: UpInputs, *, overwrite: bool, track: str | None) -> list[Step]:
    """List the steps in order.

    Args:
        overwrite: Whether to replace snapshots, timesteps and runs that were created with other options.
        track: Tracker of the runs' metrics, or None.
    """
    steps = [_write_sample(inputs)] if inputs.is_sample else []
    steps += [_load(inputs, state, overwrite=overwrite) for state in inputs.states if state.dump]
    steps += [_update_graph(inputs)] if inputs.graph else []
    steps += [_export(inputs, overwrite=overwrite)]
    steps += [_run(inputs, fields, overwrite=overwrite, track=track) for fields in inputs.runs]
    return [*steps, _report(inputs)]


def _write_sample(inputs: UpInputs) -> Step:
    folder = inputs.sample_folder
    files = [folder / name for name in (*(f"{day:%Y%m%d}.json.gz" for day in SNAPSHOT_DATES), "redirects.tsv")]
    source = Path(kgedit.sample.__file__).parent / "world.yaml"

    def is_done() -> bool:
        return all(file.is_file() and file.stat().st_mtime >= source.stat().st_mtime for file in files)

    return Step("sample", "write the sample's dumps", is_done, lambda _progress: write_world(folder))


def _load(inputs: UpInputs, state: DatedState, *, overwrite: bool) -> Step:
    home, dump = Home(inputs.home), state.dump or Path()

    def is_done() -> bool:
        return dump.is_file() and is_loaded(home.path, dump, state.date, options=inputs.dump_options())

    def carry_out(progress: Steps) -> object:
        return home.load_dump(
            dump, state.date, redirects=inputs.redirects, overwrite=overwrite, graph=False, progress=progress
        )

    return Step("load", f"load {state.date}", is_done, carry_out, state=state)


def _update_graph(inputs: UpInputs) -> Step:
    home = Home(inputs.home)

    def is_done() -> bool:
        # Only a running server can report whether it holds the snapshots; updating an up-to-date graph writes nothing.
        content = home.graph_status().content
        there = {} if content is None else content.snapshots
        return bool(there) and all(there.get(snapshot.date) is not None for snapshot in home.snapshots())

    def carry_out(progress: Steps) -> object:
        return home.update_graph(progress=progress)

    # Of a large dump, both the import and the search for changes need much memory.
    return Step("graph", "update the graph in Neo4j", is_done, carry_out, is_beside=inputs.is_sample)


def _export(inputs: UpInputs, *, overwrite: bool) -> Step:
    home, folder = Home(inputs.home), inputs.timestep
    days = [state.date for state in inputs.states]

    def is_done() -> bool:
        if not folder.exists():
            return False
        old, new = (open_snapshot(home.path, day) for day in days)
        return is_exported(home.path, old, new, folder, options=inputs.export_options())

    def carry_out(_progress: Steps) -> object:
        engine = inputs.export_options().engine
        return home.export_timestep(*days, profile=inputs.profile, overwrite=overwrite, engine=engine)

    return Step("export", "turn the changes into questions", is_done, carry_out)


def _run(inputs: UpInputs, fields: RunFields, *, overwrite: bool, track: str | None) -> Step:
    def is_done() -> bool:
        return inputs.timestep.is_dir() and _run_state(inputs, fields) == "finished"

    def carry_out(progress: Steps) -> object:
        check_has_cases(inputs)
        return run(
            inputs.raw_spec(fields),
            home=inputs.home,
            overwrite=overwrite and _run_state(inputs, fields) == "other",
            track=track,
            progress=by_stage(progress),
        )

    name = f"edit {fields['model']} with {fields['method']}, and evaluate it before and after"
    return Step("run", name, is_done, carry_out, run=fields)


def _run_state(inputs: UpInputs, fields: RunFields) -> str:
    """State of a run: finished, other (on edits that have changed since), or unfinished."""
    from kgedit.runs.runner import default_folder
    from kgedit.runs.spec import resolve
    from kgedit.runs.sweeps.counting import SweepCounter
    from kgedit.runs.sweeps.execution import differences, is_finished
    from kgedit.runs.sweeps.planning import PlannedRun

    with use_home(inputs.home):
        spec = resolve(inputs.raw_spec(fields))
        folder = default_folder(spec)
    if differences(PlannedRun(spec.method, spec), folder, SweepCounter()):
        return "other"
    return "finished" if is_finished(folder) else "unfinished"


def run_folders(inputs: UpInputs) -> list[Path]:
    """Folders of the runs, in order; the timestep must exist."""
    from kgedit.runs.runner import default_folder
    from kgedit.runs.spec import resolve

    with use_home(inputs.home):
        return [default_folder(resolve(inputs.raw_spec(fields))) for fields in inputs.runs]


def _report(inputs: UpInputs) -> Step:
    folder = inputs.report

    def is_done() -> bool:
        return inputs.timestep.is_dir() and read_summary(inputs) is not None

    def carry_out(_progress: Steps) -> object:
        (folder / SUMMARY).unlink(missing_ok=True)
        folders = run_folders(inputs)
        report(folders, out=folder, html=folder / PAGE, overwrite=True)
        browser = browser_of_home(inputs.home)() if inputs.graph else None
        describe_page(inputs.timestep, html=folder / CHANGES, browser=browser, overwrite=True)
        runs = [read_run(one) for one in folders]
        summary = summarize(inputs.timestep, runs, page=folder / PAGE, changes=folder / CHANGES)
        return write_summary(folder / SUMMARY, summary)

    return Step("report", "write the pages", is_done, carry_out)


def read_summary(inputs: UpInputs) -> dict[str, Any] | None:
    """Content of summary.json; None if it is missing or has other inputs."""
    path = inputs.report / SUMMARY
    if not path.is_file() or not (inputs.report / PAGE).is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError:
        return None  # damaged: it is written again
    made_of = UpSummary.made_of(inputs.timestep, run_folders(inputs))
    return found if isinstance(found, dict) and found.get("made_of") == made_of else None


def with_state(steps: list[Step]) -> Iterator[tuple[Step, bool]]:
    """Each step with whether its result exists; steps after a pending step are pending as well.

    The graph is an exception, because its state is unknown while its server is stopped.
    """
    undone = False
    for step in steps:
        done = not undone and step.is_done()
        undone = undone or not (done or step.kind == "graph")
        yield step, done
