"""Steps of `up`: each is one call of the public API, with a test of whether its result exists.

A result exists if it is complete and was created from the same inputs: snapshots and timesteps record their inputs in
their manifest, runs in their spec and environment, pages in summary.json, which is written last. `check_inputs` checks
all steps before anything is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kgedit.editing import METHODS, settings_type_of
from kgedit.errors import MissingExtraError, SpecError, StoreError, TimestepError
from kgedit.graph.connection import external_address
from kgedit.graph.managed.install import check_can_install
from kgedit.graph.managed.java import find_java
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.state import browser_of_home
from kgedit.llm.embeddings import check_embedder
from kgedit.progress import Steps
from kgedit.resources import use_home
from kgedit.sample import SOURCE
from kgedit.sample.generate import SNAPSHOT_DATES, write_world
from kgedit.store.snapshots import open_snapshot
from kgedit.timesteps.timestep import timesteps_folder
from kgedit.verbs.describe import describe_page
from kgedit.verbs.export_options import ExportOptions
from kgedit.verbs.exporting import is_exported, why_no_cases
from kgedit.verbs.home import Home
from kgedit.verbs.live_progress import by_stage
from kgedit.verbs.load_dump import check_loadable, is_loaded, looks_loaded
from kgedit.verbs.report import report
from kgedit.verbs.run_edit import read_run, run
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
        only_compares: Tests whether carrying it out would only compare its existing result with its input.
    """

    kind: str
    name: str
    is_done: Callable[[], bool]
    carry_out: Callable[[Steps], object]
    state: DatedState | None = None
    run: RunFields = field(default_factory=dict)
    is_beside: bool = False
    only_compares: Callable[[], bool] = lambda: False


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

    def is_done() -> bool:
        return all(file.is_file() and file.stat().st_mtime >= SOURCE.stat().st_mtime for file in files)

    return Step("sample", "write the sample's dumps", is_done, lambda _progress: write_world(folder))


def _load(inputs: UpInputs, state: DatedState, *, overwrite: bool) -> Step:
    home, dump = Home(inputs.home), state.dump or Path()

    def is_done() -> bool:
        return dump.is_file() and is_loaded(home.path, dump, state.date, options=inputs.dump_options())

    def only_compares() -> bool:
        return dump.is_file() and looks_loaded(home.path, dump, state.date, options=inputs.dump_options())

    def carry_out(progress: Steps) -> object:
        return home.load_dump(
            dump, state.date, redirects=inputs.redirects, overwrite=overwrite, graph=False, progress=progress
        )

    return Step("load", f"load {state.date}", is_done, carry_out, state=state, only_compares=only_compares)


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
    from kgedit.runs.sweeps.execution import SweepCounter, differences, is_finished
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

    Exceptions are the graph, because its state is unknown while its server is stopped, and steps that only compare.
    """
    undone = False
    for step in steps:
        done = not undone and step.is_done()
        undone = undone or not (done or step.kind == "graph" or step.only_compares())
        yield step, done


_OF_EVERY_RUN = ("torch", "transformers", "tokenizers", "safetensors")
"""Modules of the extra `models` that loading any model requires."""


def check_inputs(inputs: UpInputs, *, track: str | None, overwrite: bool = False) -> None:
    """Reject what a later step would reject. Writes nothing, and loads no model or server.

    Args:
        track: Tracker of the runs' metrics, or None.
        overwrite: Whether to replace snapshots, timesteps and runs with other content.

    Raises:
        StoreError: if a state's day is not loaded, another dump is loaded for it, or the home is not writable.
        SourceError: if a dump cannot be read.
        TimestepError: if an option is not one of the profile's, or the timestep's folder contains something else.
        SpecError: listing all errors of the runs' specs.
        ModelError: if a model does not exist.
        MissingExtraError: if a package that a step needs is not installed.
        GraphError: if the graph's server cannot be started.
        UnknownNameError: if the tracker does not exist.
    """
    inputs.export_options()
    _check_home(inputs.home)
    _check_runs(inputs, track)
    _check_states(inputs, overwrite=overwrite)
    _check_timestep(inputs, overwrite=overwrite)
    if inputs.graph:
        _check_server(inputs.home)


def _check_home(home: Path) -> None:
    there = next(path for path in (home, *home.parents) if path.exists())
    if not there.is_dir():
        raise StoreError(f"{there} is a file, so nothing can be written to {home}. Set KGEDIT_HOME to a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StoreError(f"{there} cannot be written. Set KGEDIT_HOME to a folder that can, or change its permissions.")


def _check_runs(inputs: UpInputs, track: str | None) -> None:
    missing = next((module for module in _OF_EVERY_RUN if find_spec(module) is None), None)
    if missing:
        raise MissingExtraError(missing, "models")
    from kgedit.llm.loading import check_model
    from kgedit.runs.spec import DEFAULT_BACKEND, problems_of
    from kgedit.runs.tracking import Tracking

    problems = [problem for fields in inputs.runs for problem in problems_of(fields)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    Tracking(track)
    for fields in inputs.runs:
        METHODS[fields["method"]]  # imports the packages that the method needs
        if fields.get("backend", DEFAULT_BACKEND) == DEFAULT_BACKEND:
            check_model(str(fields["model"]), trust_remote_code=bool(fields.get("trust_remote_code")))
        embedder = settings_type_of(fields["method"]).model_fields.get("embedder")
        if embedder is not None:
            check_embedder(str((fields.get("settings") or {}).get("embedder") or embedder.default))


def _check_states(inputs: UpInputs, *, overwrite: bool) -> None:
    for state in inputs.states:
        if state.dump is None:
            open_snapshot(inputs.home, state.date)
        elif not inputs.is_sample:  # its dumps are written by the first step
            options = inputs.dump_options(overwrite=overwrite)
            check_loadable(inputs.home, state.dump, state.date, options=options)


def _check_timestep(inputs: UpInputs, *, overwrite: bool) -> None:
    folder = inputs.timestep
    if folder.exists() and not overwrite and not (folder / "timestep.json").is_file():
        raise TimestepError(
            f"{folder} exists and is no timestep. Nothing was changed. Move it away, or replace it with --overwrite."
        )


def _check_server(home: Path) -> None:
    if external_address() is None and not ManagedServer(home).running():
        find_java()
        check_can_install()


def check_has_cases(inputs: UpInputs) -> None:
    """Refuse a timestep without cases before a model is loaded for it.

    Raises:
        TimestepError: if it has none; the message names a profile, or other timesteps, with cases.
    """
    if _cases_in(inputs.timestep):
        return
    names = ", ".join(name for name, count in _other_timesteps(inputs) if count)
    others = f"These timesteps of {inputs.home} have cases: {names}. Give their two dates with --from and --to."
    raise TimestepError(
        why_no_cases(
            inputs.home,
            inputs.timestep,
            [str(state.date) for state in inputs.states],
            options=ExportOptions(profile=inputs.profile),
            effect=", so there is nothing to edit",
            others=others if names else "",
        )
    )


def _cases_in(timestep: Path) -> int:
    return int(pq.read_metadata(timestep / "cases.parquet").num_rows)


def _other_timesteps(inputs: UpInputs) -> list[tuple[str, int]]:
    folders = sorted(timesteps_folder(inputs.home).iterdir())
    return [
        (one.name, _cases_in(one)) for one in folders if one != inputs.timestep and (one / "cases.parquet").is_file()
    ]
