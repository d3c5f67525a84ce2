"""Finds the timestep that a user names: by folder, by name in the home, or by two dates.

Names and dates refer to the folders that `export_timestep` writes by default, under ``timesteps/`` in the home.
"""

from __future__ import annotations

import re
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.near_names import did_you_mean
from kgedit.resources import as_typed, home
from kgedit.wikidata.times import day_number, read_day

MANIFEST = "timestep.json"
"""Written last: a folder without it is not a finished timestep."""

_DATES = re.compile(r"(\d{4}[-\d]*\d)\.\.(\d{4}[-\d]*\d)", re.ASCII)
_EDIT_FILES = (".json", ".jsonl", ".csv", ".parquet")
_MOST_LISTED = 12


def timesteps_folder(home: Path) -> Path:
    """Folder of a home's timesteps: ``timesteps``, or ``benchmark`` in a home of an earlier version."""
    earlier = home / "benchmark"
    return earlier if earlier.is_dir() and not (home / "timesteps").is_dir() else home / "timesteps"


def find_timestep(given: str | Path) -> Path:
    """Find the folder of a finished timestep.

    Args:
        given: A folder; the name of one in the home's `timesteps`, such as ``20210104_20230227``; or two dates, such as
            ``2021-01-04..2023-02-27``. Two dates mean the timestep of the default profile; if there is none, that of
            the only other profile.

    Raises:
        TimestepError: if it is none of these; the message lists the existing timesteps.
    """
    folder = Path(given)
    if (folder / MANIFEST).is_file():
        return folder
    dates = _DATES.fullmatch(str(given))
    named = _of_dates(dates[1], dates[2]) if dates else _of_name(str(given))
    if named is None:
        raise TimestepError(_why_none(folder))
    return as_typed(named)


def list_timesteps() -> list[str]:
    """Names of the finished timesteps in the home, sorted."""
    return sorted(path.parent.name for path in (timesteps_folder(home())).glob(f"*/{MANIFEST}"))


def timesteps_there_are() -> str:
    """The timesteps in the home, as a sentence, or how to export one."""
    names, folder = list_timesteps(), as_typed(timesteps_folder(home()))
    if not names:
        return f"There is no timestep in {folder} yet; export one with kgedit export-timestep."
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"Timesteps in {folder}: {', '.join(names[:_MOST_LISTED])}{more}."


def _of_name(name: str) -> Path | None:
    folder = timesteps_folder(home()) / name
    return folder if Path(name).name == name and (folder / MANIFEST).is_file() else None


def _of_dates(older: str, newer: str) -> Path | None:
    """The timestep between two days.

    Raises:
        TimestepError: if one is not a day, or timesteps of several profiles have these dates.
    """
    try:
        pair = "_".join(str(day_number(read_day(day))) for day in (older, newer))
    except ValueError as error:
        raise TimestepError(str(error)) from error
    names = list_timesteps()
    of_pair = [pair] if pair in names else [name for name in names if name.startswith(f"{pair}_")]
    if len(of_pair) > 1:
        raise TimestepError(f"Several timesteps have the dates {older}..{newer}: give one of {', '.join(of_pair)}.")
    return _of_name(of_pair[0]) if of_pair else None


def _why_none(folder: Path) -> str:
    if folder.suffix in _EDIT_FILES and not folder.exists():
        return f"There is no file {folder}."
    if folder.is_dir():
        what = f"The folder {folder} is not a finished timestep: it has no {MANIFEST}."
        inside = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))
        if inside:
            return (
                f"{what} These in it are: {', '.join(inside[:_MOST_LISTED])}. Give {folder / inside[0]}, for instance."
            )
    else:
        what = f"There is no timestep {folder}.{did_you_mean(folder.name, list_timesteps())}"
    return f"{what} {timesteps_there_are()} Give a folder, a name or two dates (2021-01-04..2023-02-27)."
