"""Checks of `up` before anything is written, and what it proposes if a timestep has no cases."""

from __future__ import annotations

import contextlib
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq

from kgedit.editing import METHODS, settings_type_of
from kgedit.errors import KgeditError, MissingExtraError, SpecError, StoreError, TimestepError
from kgedit.store.snapshots import open_snapshot
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.profiles import PROFILES
from kgedit.timesteps.timestep import timesteps_folder
from kgedit.verbs.home import Home
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


def check_has_cases(inputs: UpInputs) -> None:
    """Refuse a timestep without cases before a model is loaded for it.

    The other profiles are tried in a temporary folder. That is as fast as the export before it, which found nothing.

    Raises:
        TimestepError: if it has none; the message names a profile, or other timesteps, with cases.
    """
    if _cases_in(inputs.timestep):
        return
    dates = " and ".join(str(state.date) for state in inputs.states)
    begins = f"No change between {dates} became a case of the profile {inputs.profile}, so there is nothing to edit."
    for profile in PROFILES:
        count = 0 if profile == inputs.profile else _cases_of_profile(inputs, profile)
        if count:
            raise TimestepError(f"{begins} {profile} has {count:,}: add --profile {profile} to the same command.")
    others = [name for name, count in _other_timesteps(inputs) if count]
    if others:
        raise TimestepError(
            f"{begins} These timesteps of {inputs.home} have cases: {', '.join(others)}. Give their two dates with "
            "--from and --to."
        )
    raise TimestepError(
        f"{begins} No other profile has any either. Give states that are further apart or contain more items; "
        f"{inputs.timestep / 'timestep.json'} counts the changes that each filter dropped."
    )


def _cases_in(timestep: Path) -> int:
    return int(pq.read_metadata(timestep / "cases.parquet").num_rows)


def _cases_of_profile(inputs: UpInputs, profile: str) -> int:
    """Number of cases of another profile; 0 if the snapshots lack what it needs."""
    with tempfile.TemporaryDirectory(dir=inputs.home) as folder, contextlib.suppress(KgeditError):
        days = [state.date for state in inputs.states]
        out = Path(folder) / "timestep"
        Home(inputs.home).export_timestep(*days, profile=profile, engine=StoreEngine.name, out=out)
        return _cases_in(out)
    return 0


def _other_timesteps(inputs: UpInputs) -> list[tuple[str, int]]:
    folders = sorted(timesteps_folder(inputs.home).iterdir())
    return [
        (one.name, _cases_in(one)) for one in folders if one != inputs.timestep and (one / "cases.parquet").is_file()
    ]
