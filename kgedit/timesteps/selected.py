"""A selection: the subjects and relations whose changes become a timestep, as a CSV file with a header.

Columns subject and property; an empty cell matches anything. ``Q183,P6`` is one change, ``Q183,`` all of an item and
``,P6`` all of a relation. `kgedit explore` writes such files; a spreadsheet can too.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.files import replace_file
from kgedit.store.engine import select
from kgedit.timesteps.filters import Filter, Filtered, reason_column, split_by_reason

SELECTION = pa.schema([("subject", pa.string()), ("property", pa.string())])
"""Null matches anything; a row has at least one of the two."""

NOT_SELECTED = "not in the selection"

IS_SELECTED = """
    (coalesce((subject, property) IN (SELECT (subject, property) FROM selection WHERE subject IS NOT NULL
        AND property IS NOT NULL), false)
     OR coalesce(subject IN (SELECT subject FROM selection WHERE property IS NULL), false)
     OR coalesce(property IN (SELECT property FROM selection WHERE subject IS NULL), false))
"""
"""SQL: whether a row with subject and property is in a table ``selection``."""

_FILTERS: tuple[Filter, ...] = ((NOT_SELECTED, f"NOT {IS_SELECTED}"),)


def read_selection(path: Path) -> pa.Table:
    """Read the selection of a file, with the schema SELECTION.

    Raises:
        TimestepError: if a line is invalid; the message names the first.
    """
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            if [cell.strip() for cell in next(lines, [])] != SELECTION.names:
                raise TimestepError(f"{path} is not a selection. Its first line must be: subject,property")
            for line in filter(None, lines):
                subject, relation = (*(cell.strip() or None for cell in line), None, None)[:2]
                if len(line) > 2 or not _are_ids(subject, relation):
                    raise TimestepError(
                        f"Line {lines.line_num} of {path} selects nothing: {','.join(line)!r}. Write an item, a "
                        "relation or both: Q183,P6"
                    )
                rows.append({"subject": subject, "property": relation})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TimestepError(f"{path} cannot be read: {error}") from error
    if not rows:
        raise TimestepError(f"{path} selects nothing. Write lines such as Q183,P6 below its heading.")
    return pa.Table.from_pylist(rows, SELECTION)


def write_selection(path: Path, selection: pa.Table) -> None:
    """Write a selection; the same rows give the same bytes."""
    rows = sorted({(row["subject"] or "", row["property"] or "") for row in selection.to_pylist()})
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "\n".join([",".join(SELECTION.names), *(",".join(row) for row in rows)]) + "\n")


def keep_selected(changes: pa.Table, selection: pa.Table | None) -> Filtered:
    """Keep the selected changes; without a selection, all of them, with an empty funnel.

    Args:
        changes: Columns subject and property; other columns are kept.
        selection: From read_selection.
    """
    if selection is None:
        return Filtered(changes, changes.slice(0, 0).append_column("reason", pa.array([], pa.string())), {})
    judged = select(
        f"SELECT *, {reason_column(_FILTERS)} FROM changes ORDER BY subject, property",
        changes=changes,
        selection=selection,
    )
    return split_by_reason(judged, _FILTERS)


def _are_ids(subject: str | None, relation: str | None) -> bool:
    return (
        (subject is not None or relation is not None)
        and (subject is None or re.fullmatch(r"[QPL][1-9]\d*", subject) is not None)
        and (relation is None or re.fullmatch(r"P[1-9]\d*", relation) is not None)
    )
