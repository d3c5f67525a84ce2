"""What `up` proposes if a timestep has no cases: the other profile, or timesteps of the home that have some."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from kgedit.engines.store import StoreEngine
from kgedit.errors import KgeditError, TimestepError
from kgedit.timesteps.profiles import PROFILES
from kgedit.timesteps.timestep import timesteps_folder
from kgedit.verbs.home import Home
from kgedit.verbs.up_inputs import UpInputs


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
