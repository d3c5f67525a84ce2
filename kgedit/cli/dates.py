"""Dates as options and arguments: ``@click.option("--date", **DATE)``."""

from __future__ import annotations

import datetime
from typing import Any

import click

from kgedit.wikidata.times import read_day


class _Day(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A day, as its midnight; year first, in any of the spellings of `read_day`."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        try:
            return datetime.datetime.combine(read_day(value), datetime.time())
        except ValueError as error:
            self.fail(str(error), param, ctx)


DATE: dict[str, Any] = {"type": _Day(), "metavar": "YYYY-MM-DD"}
"""Any day."""


def _read_days(_context: click.Context, _parameter: click.Parameter, given: str) -> tuple[datetime.date, ...]:
    try:
        return tuple(read_day(day.strip()) for day in given.split(",")) if given else ()
    except ValueError as error:
        raise click.BadParameter(f"{error} Several days are separated by commas: 2010-12-31,2015-12-31") from error


DATES: dict[str, Any] = {"metavar": "YYYY-MM-DD,...", "default": "", "callback": _read_days}
"""Several days, separated by commas."""
