"""Heat maps with their numbers: the accuracy matrix, and scores by properties of an edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.pages.charts.scales import percent
from kgedit.pages.marks import Drawing, Mark, rect, shortened, text, text_width

_ROW = 26


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell.

    Attributes:
        share: Share in [0, 1]; None if nothing was evaluated.
        n: Number of answers; None if unknown.
        outlined: Whether it has a frame.
        tooltip: Text of the tooltip.
        label: Text shown instead of the share in %; "" shows the share.
    """

    share: float | None
    n: int | None = None
    outlined: bool = False
    tooltip: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One row: its name, a number next to it (or ""), and its cells."""

    name: str
    beside: str
    cells: tuple[HeatCell, ...]


def heat_map(
    title: str,
    columns: Sequence[str],
    rows: Sequence[HeatRow],
    *,
    role: str,
    note: str = "",
    names: float = 150,
    cell: float = 0,
) -> Drawing:
    """Rows of coloured cells from 0 to 100 %.

    Args:
        role: Colour role of the hue.
        note: Below the map, or "".
        names: Width of the column of row names.
        cell: Width of a cell; 0 means the width of the widest heading.
    """
    wide = cell or max([44.0, *(min(text_width(name, 11), 110) + 14 for name in columns)])
    beside = 34.0 if any(row.beside for row in rows) else 0.0
    top, width = 50.0, names + beside + wide * len(columns)
    height = top + _ROW * len(rows) + (22 if note else 4)
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for index, name in enumerate(columns):
        middle = names + beside + wide * (index + 0.5)
        marks.append(text(middle, top - 8, shortened(name, wide - 6, 11), size=11, anchor="middle", tooltip=name))
    for index, row in enumerate(rows):
        marks += _row(row, top + _ROW * index, names, beside, wide, role)
    if note:
        marks.append(text(0, height - 4, note, size=11, fill="muted"))
    drawn = max(width, text_width(title, 13) + 4, text_width(note, 11) + 4)
    words = "; ".join(
        f"{row.name}: "
        + ", ".join(f"{column} {_share(found)}" for column, found in zip(columns, row.cells, strict=True))
        for row in rows
    )
    return Drawing(drawn, height, f"{title}. {words}", tuple(marks))


def _row(row: HeatRow, y: float, names: float, beside: float, wide: float, role: str) -> list[Mark]:
    marks = [text(0, y + 17, shortened(row.name, names - 8), tooltip=row.name, fill="ink2")]
    if beside:
        marks.append(text(names + beside - 8, y + 17, row.beside, size=11, fill="muted", anchor="end"))
    for index, cell in enumerate(row.cells):
        if cell.share is None:
            continue
        x = names + beside + wide * index
        marks.append(rect(x + 1, y + 1, wide - 2, _ROW - 2, fill="ground", stroke="line"))
        stroke = "ink" if cell.outlined else ""
        # The maximum darkness keeps the text readable in both themes.
        opacity = 0.04 + 0.46 * cell.share
        marks.append(rect(x + 1, y + 1, wide - 2, _ROW - 2, fill=role, opacity=opacity, stroke=stroke))
        words = cell.label or percent(cell.share, n=cell.n)
        marks.append(text(x + wide / 2, y + 17, words, fill="ink", anchor="middle", tooltip=cell.tooltip))
    return marks


def _share(cell: HeatCell) -> str:
    return cell.label or ("not asked" if cell.share is None else f"{percent(cell.share, n=cell.n)} %")
