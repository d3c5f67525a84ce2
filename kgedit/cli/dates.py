"""How options and arguments take a date: ``@click.option("--date", **DATE)``."""

from __future__ import annotations

from typing import Any

import click

from kgedit.cli import completion

DATE: dict[str, Any] = {"type": click.DateTime(formats=["%Y-%m-%d"]), "metavar": "YYYY-MM-DD"}
"""Any day."""

SNAPSHOT_DATE: dict[str, Any] = {**DATE, "shell_complete": completion.snapshot_dates}
"""The day of a snapshot in the store."""
