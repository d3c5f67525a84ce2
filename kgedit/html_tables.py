"""Small HTML tables for notebooks. All texts are escaped, because labels and file names come from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, note: str = "") -> str:
    """Render a table with a title.

    Args:
        title: Title of the table.
        columns: Column headings.
        rows: Cells by row; integers get thousands separators and are right-aligned, None is empty.
        note: Sentence below the table, or "".
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
    )


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td style="text-align: right">{value:,}</td>'
    return f"<td>{'' if value is None else escape(str(value))}</td>"
