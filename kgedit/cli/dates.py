"""How options and arguments take a date: ``@click.option("--date", **DATE)``."""

from __future__ import annotations

import datetime
from typing import Any

import click

from kgedit.cli import completion

DATE: dict[str, Any] = {"type": click.DateTime(formats=["%Y-%m-%d"]), "metavar": "YYYY-MM-DD"}
"""Any day."""

SNAPSHOT_DATE: dict[str, Any] = {**DATE, "shell_complete": completion.snapshot_dates}
"""The day of a snapshot in the store."""


def _read_days(_context: click.Context, _parameter: click.Parameter, given: str) -> tuple[datetime.date, ...]:
    try:
        return tuple(datetime.date.fromisoformat(day.strip()) for day in given.split(",")) if given else ()
    except ValueError as error:
        raise click.BadParameter(f"'{given}' is no list of days. Write: 2010-12-31,2015-12-31") from error


DATES: dict[str, Any] = {"metavar": "YYYY-MM-DD,...", "default": "", "callback": _read_days}
"""Several days, separated by commas."""
