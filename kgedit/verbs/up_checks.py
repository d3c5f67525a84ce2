"""Checks of `up` before its first step: everything that a later step would reject is rejected before any write."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from kgedit.editing import METHODS, settings_type_of
from kgedit.errors import MissingExtraError, SpecError, StoreError, TimestepError
from kgedit.store.snapshots import open_snapshot
from kgedit.verbs.load_dump import check_loadable
from kgedit.verbs.up_inputs import UpInputs

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
    from kgedit.llm.embeddings import check_embedder
    from kgedit.llm.loading import check_model
    from kgedit.runs.backends import DEFAULT
    from kgedit.runs.spec import problems_of
    from kgedit.runs.tracking import Tracking

    problems = [problem for run in inputs.runs for problem in problems_of(run)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    Tracking(track)
    for run in inputs.runs:
        METHODS[run["method"]]  # imports the packages that the method needs
        if run.get("backend", DEFAULT) == DEFAULT:
            check_model(str(run["model"]), trust_remote_code=bool(run.get("trust_remote_code")))
        embedder = settings_type_of(run["method"]).model_fields.get("embedder")
        if embedder is not None:
            check_embedder(str((run.get("settings") or {}).get("embedder") or embedder.default))


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
    from kgedit.graph.connection import external_address
    from kgedit.graph.managed.install import check_can_install
    from kgedit.graph.managed.java import find_java
    from kgedit.graph.managed.server import ManagedServer

    if external_address() is None and not ManagedServer(home).running():
        find_java()
        check_can_install()
