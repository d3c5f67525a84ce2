"""Adds dates to questions: "As of 30 December 2023, who is the head of government of Canada?".

The date is added to the templates before labels are filled in, so every text made from them has it. Phrases get no
date, because they become part of another question.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.resources import data_folder
from kgedit.wording.catalogues import content_hash, read_catalogue, refuse
from kgedit.wording.templates import LISTS, TEMPLATES

DATED = ("question", "rephrase", "cloze")
"""Wordings that get a date, in addition to those in LISTS."""

_SLOTS = {"wording": ("date", "text"), "date": ("day", "month", "year")}


def shipped_dates() -> Path:
    """Path of the shipped catalogue."""
    return data_folder("prompts") / "dates" / "en.yaml"


def dates_version(catalogue: Path | None = None) -> str:
    """Content hash of the catalogue, for the provenance of a timestep."""
    return content_hash([catalogue or shipped_dates()])


def date_templates(templates: pa.Table, day: date, *, catalogue: Path | None = None) -> pa.Table:
    """Add a date to the questions and clozes of templates.

    Args:
        templates: Table with the schema kgedit.wording.templates.TEMPLATES.
        day: The date.
        catalogue: YAML file of the same form as the shipped one; None means the shipped one.

    Returns:
        The same rows with the same names.

    Raises:
        TimestepError: with all problems, if the catalogue cannot be read or breaks the contract of its entries.
    """
    content = _checked(catalogue or shipped_dates())
    columns = {name: templates[name].to_pylist() for name in TEMPLATES.names}
    for name in DATED:
        columns[name] = [_dated(text, day, content) for text in columns[name]]
    for name in LISTS:
        columns[name] = [[_dated(text, day, content) for text in texts] for texts in columns[name]]
    return pa.table(columns, schema=TEMPLATES)


def date_text(text: str, day: date, *, catalogue: Path | None = None) -> str:
    """Add a date to a question without slots.

    >>> date_text("Tell me, who runs Canada?", date(2023, 12, 30))
    'As of 30 December 2023, tell me, who runs Canada?'
    """
    return _dated(text, day, _checked(catalogue or shipped_dates()))


def lead(day: date, *, catalogue: Path | None = None) -> str:
    """Prefix of a dated text: "As of 30 December 2023, ".

    >>> lead(date(2023, 12, 30))
    'As of 30 December 2023, '
    """
    content = _checked(catalogue or shipped_dates())
    before: str = content["wording"].replace("{date}", _date_text(day, content)).partition("{text}")[0]
    return before


def _dated(text: str, day: date, content: dict[str, Any]) -> str:
    begun: str = content["wording"].replace("{date}", _date_text(day, content))
    keeps = text.startswith(("{", "I ", "I'")) or begun.startswith("{text}")
    own = text if keeps else text[:1].lower() + text[1:]
    return begun.replace("{text}", own)


def _date_text(day: date, content: dict[str, Any]) -> str:
    written: str = content["date"].replace("{day}", str(day.day)).replace("{year}", str(day.year))
    return written.replace("{month}", content["months"][day.month - 1])


def _checked(path: Path) -> dict[str, Any]:
    content = read_catalogue(path)
    problems = [f"the key '{key}' is missing" for key in ("name", "version", *_SLOTS, "months") if key not in content]
    for key, slots in _SLOTS.items():
        text = content.get(key, "")
        if not isinstance(text, str):
            problems.append(f"'{key}' is not text")
            continue
        problems += [f"'{key}' must hold {{{slot}}} exactly once" for slot in slots if text.count(f"{{{slot}}}") != 1]
    months = content.get("months", [])
    if not isinstance(months, list) or len(months) != 12 or not all(isinstance(month, str) for month in months):
        problems.append("'months' must be twelve names")
    refuse(path, problems)
    return content
