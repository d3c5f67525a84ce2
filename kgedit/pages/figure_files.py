"""Figures as SVG and PNG files, with the width of a paper's column or page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from kgedit.files import replace_file
from kgedit.pages.marks import Drawing, Figure, as_printed, written_marks

COLUMN_MM, PAGE_MM = 84, 174
"""Width of one column and of both columns of a paper, in millimetres."""

_PIXELS_PER_INCH = 300  # what journals ask of images at least
_GAP = 28.0
_FONTS = "Roboto, Helvetica, Arial, sans-serif"
_DRAWN_COLUMN = 420.0  # drawings up to this width fit a column with 7-point letters


def figure_svg(figure: Figure) -> str:
    """Render a figure as one SVG file on white, with panels side by side, two per row."""
    columns = 1 if len(figure.panels) == 1 else 2
    rows = [figure.panels[start : start + columns] for start in range(0, len(figure.panels), columns)]
    column_widths = [max(row[index].width for row in rows if len(row) > index) for index in range(columns)]
    width = sum(column_widths) + _GAP * (columns - 1)
    heights = [max(panel.height for panel in row) for row in rows]
    height = sum(heights) + _GAP * (len(rows) - 1)
    placed = _placed(rows, column_widths, heights)
    printed = COLUMN_MM if width <= _DRAWN_COLUMN else PAGE_MM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{printed}mm" height="{printed * height / width:.2f}mm" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="{_FONTS}"><title>{escape(figure.title)}</title>'
        f'<desc>{escape(figure.note)}</desc><rect width="100%" height="100%" fill="#ffffff"/>{placed}</svg>\n'
    )


def _placed(rows: Sequence[Sequence[Drawing]], widths: Sequence[float], heights: Sequence[float]) -> str:
    written = []
    for row_index, row in enumerate(rows):
        y = sum(heights[:row_index]) + _GAP * row_index
        for column, panel in enumerate(row):
            x = sum(widths[:column]) + _GAP * column
            written.append(f'<g transform="translate({x:g} {y:g})">{written_marks(panel, as_printed)}</g>')
    return "".join(written)


def figure_png(svg: str) -> bytes:
    """Convert an SVG of `figure_svg` to PNG at 300 dpi."""
    import font_roboto
    import resvg_py

    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg,
            dpi=_PIXELS_PER_INCH,
            font_files=[font_roboto.Roboto, font_roboto.RobotoMedium, font_roboto.RobotoBold],
            font_family="Roboto",
            sans_serif_family="Roboto",
        )
    )


def write_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write every figure as NAME.svg and NAME.png.

    Returns:
        Paths of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        svg = figure_svg(figure)
        written.append(replace_file(folder / f"{figure.name}.svg", svg))
        written.append(replace_file(folder / f"{figure.name}.png", figure_png(svg)))
    return written
