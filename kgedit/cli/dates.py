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


class _Dates(click.ParamType):
    """Days, separated by commas."""

    name = "dates"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[datetime.date, ...]:
        if not isinstance(value, str):
            return tuple(value)
        try:
            return tuple(datetime.date.fromisoformat(day.strip()) for day in value.split(","))
        except ValueError:
            self.fail(f"'{value}' is no list of days. Write: 2010-12-31,2015-12-31", param, ctx)


DATES = _Dates()
"""Several days: ``@click.option("--as-of", type=DATES, default=())``."""
