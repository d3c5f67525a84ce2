"""Drawings as data: marks with positions and colour roles, rendered as SVG for a page, or as SVG and PNG files.

Positions and sizes are pixels at 96 dpi, with the origin at the top left. Text is escaped here and nowhere else. A page
paints roles as CSS variables, which follow the theme, a file with the values of the light theme. A file is as wide as a
paper's column or page. The palette is Okabe-Ito, distinguishable with any colour vision.

No chart library is used: in a trial Vega-Lite (vl-convert) also gave standalone SVG with the same bytes each time, but
without tooltips and with colliding labels, from an engine of 84 MB that takes 2.4 s for the first figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

from kgedit.files import replace_file

Anchor = Literal["start", "middle", "end"]
Paint = Callable[[str], str]
"""Converts the role of a colour to its CSS value."""

_COLOURED = ("fill", "stroke")
_MEAN_WIDTH = 0.54  # mean width of a sans-serif letter, relative to its size


@dataclass(frozen=True, slots=True)
class Mark:
    """One SVG element.

    Attributes:
        tag: Name of the element.
        attributes: Attribute names and values; fill and stroke are a role of the palette, or "none".
        text: Content of a text element.
        tooltip: Tooltip, or "".
    """

    tag: str
    attributes: tuple[tuple[str, str | float], ...]
    text: str = ""
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Marks on a background.

    Attributes:
        width: Width in pixels.
        height: Height in pixels.
        title: Description for screen readers.
        marks: Marks in painting order.
    """

    width: float
    height: float
    title: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels of one figure.

    Attributes:
        name: Name of its files, without extension.
        title: Title.
        panels: One drawing each, side by side if there is room.
        note: Note for the reader, or "".
        narrow: Panels for small screens, if the panels are wider; otherwise empty.
    """

    name: str
    title: str
    panels: tuple[Drawing, ...]
    note: str = ""
    narrow: tuple[Drawing, ...] = ()


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float = 12,
    fill: str = "ink2",
    anchor: Anchor = "start",
    bold: bool = False,
    tooltip: str = "",
) -> Mark:
    """Text with its baseline at y."""
    attributes: list[tuple[str, str | float]] = [("x", x), ("y", y), ("font-size", size), ("fill", fill)]
    attributes += [("text-anchor", anchor)] if anchor != "start" else []
    attributes += [("font-weight", 600)] if bold else []
    return Mark("text", tuple(attributes), content, tooltip)


def line(
    x1: float, y1: float, x2: float, y2: float, *, stroke: str = "line2", width: float = 1, dash: str = ""
) -> Mark:
    """A straight line."""
    places: list[tuple[str, str | float]] = [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)]
    places += [("stroke", stroke), ("stroke-width", width)]
    return Mark("line", (*places, *((("stroke-dasharray", dash),) if dash else ())))


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str,
    opacity: float = 1,
    radius: float = 0,
    stroke: str = "",
    tooltip: str = "",
) -> Mark:
    """A rectangle; nothing is narrower than 0."""
    attributes: list[tuple[str, str | float]] = [("x", x), ("y", y), ("width", max(0.0, width)), ("height", height)]
    attributes += [("fill", fill)]
    attributes += [("fill-opacity", opacity)] if opacity < 1 else []
    attributes += [("rx", radius)] if radius else []
    attributes += [("stroke", stroke)] if stroke else []
    return Mark("rect", tuple(attributes), "", tooltip)


def dot(x: float, y: float, *, fill: str, radius: float = 4, tooltip: str = "") -> Mark:
    """A filled circle, which marks free decoding."""
    return Mark("circle", (("cx", x), ("cy", y), ("r", radius), ("fill", fill)), "", tooltip)


def ring(x: float, y: float, *, stroke: str, radius: float = 4, tooltip: str = "") -> Mark:
    """An open circle on the background colour, which marks teacher forcing."""
    places: tuple[tuple[str, str | float], ...] = (("cx", x), ("cy", y), ("r", radius), ("fill", "ground"))
    return Mark("circle", (*places, ("stroke", stroke), ("stroke-width", 2)), "", tooltip)


def polyline(points: Iterable[tuple[float, float]], *, stroke: str, dash: str = "") -> Mark:
    """A polyline."""
    path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
    attributes: list[tuple[str, str | float]] = [("points", path), ("fill", "none"), ("stroke", stroke)]
    attributes += [("stroke-width", 1.8), ("stroke-linejoin", "round")]
    return Mark("polyline", (*attributes, *((("stroke-dasharray", dash),) if dash else ())))


def text_width(content: str, size: float = 12) -> float:
    """Approximate width of a text, in pixels."""
    wide = sum(2 if ord(letter) > 0x2E80 else 1 for letter in content)
    return wide * size * _MEAN_WIDTH


def shortened(content: str, width: float, size: float = 12) -> str:
    """Truncate a text with "…" to an approximate width in pixels."""
    if text_width(content, size) <= width:
        return content
    letters = max(1, int(width / (size * _MEAN_WIDTH)) - 1)
    return content[:letters].rstrip() + "…"


def spread(wanted: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Positions closest to those wanted with a minimum gap, for adjacent labels.

    Args:
        wanted: Wanted positions in any order, which the result keeps.
        gap: Minimum distance.
        low: Minimum position; undercut if there is not enough room.
        high: Maximum position.
    """
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    placed = [0.0] * len(wanted)
    last = low - gap
    for index in order:
        last = placed[index] = max(wanted[index], last + gap)
    ceiling = high + gap
    for index in reversed(order):
        ceiling = placed[index] = min(placed[index], ceiling - gap)
    return placed


def to_svg(drawing: Drawing, paint: Paint, *, attributes: str = "") -> str:
    """Render a drawing as one SVG element.

    Args:
        paint: Converts a colour role to its CSS value.
        attributes: Further attributes of the svg element, already escaped.
    """
    width, height = _number(drawing.width), _number(drawing.height)
    written = written_marks(drawing, paint)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(drawing.title)}"{" " if attributes else ""}{attributes}>{written}</svg>'
    )


def written_marks(drawing: Drawing, paint: Paint) -> str:
    """Render only the marks of a drawing, for use in another SVG."""
    return "".join(_to_svg(mark, paint) for mark in drawing.marks)


def _to_svg(mark: Mark, paint: Paint) -> str:
    written = "".join(f' {name}="{_value(name, value, paint)}"' for name, value in mark.attributes)
    inner = escape(mark.text) if mark.text else ""
    if mark.tooltip:
        inner = f"<title>{escape(mark.tooltip)}</title>{inner}"
    return f"<{mark.tag}{written}>{inner}</{mark.tag}>" if inner else f"<{mark.tag}{written}/>"


def _value(name: str, value: str | float, paint: Paint) -> str:
    if isinstance(value, str):
        return paint(value) if name in _COLOURED and value != "none" else escape(value)
    return _number(value)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


LIGHT: Mapping[str, str] = {
    "ground": "#fcfcfb",
    "panel": "#ffffff",
    "wash": "#f3f3f0",
    "ink": "#1a1d21",
    "ink2": "#454b53",
    "muted": "#62696f",
    "line": "#e5e5e1",
    "line2": "#c4c6c1",
    "free": "#0072b2",
    "free-text": "#00629b",
    "forced": "#e69f00",
    "forced-text": "#7d5200",
    "bad": "#d55e00",
    "bad-text": "#a34700",
    "good": "#009e73",
    "good-text": "#006e53",
    "before": "#858b91",
    "chosen": "#e6eff6",
}
"""Role -> colour on a light background. "-text" is the same hue, dark enough for text (contrast 4.5:1)."""

DARK: Mapping[str, str] = {
    "ground": "#15171a",
    "panel": "#1a1d21",
    "wash": "#22262b",
    "ink": "#ecedeb",
    "ink2": "#c5c9ce",
    "muted": "#9aa1a9",
    "line": "#2c3036",
    "line2": "#4a5058",
    "free": "#56b4e9",
    "free-text": "#7fc8f1",
    "forced": "#e9ab25",
    "forced-text": "#efbb4c",
    "bad": "#ee7f3b",
    "bad-text": "#f39a63",
    "good": "#2bbd8d",
    "good-text": "#52cfa5",
    "before": "#8b929a",
    "chosen": "#1c2c38",
}
"""Role -> colour on a dark background; same roles as LIGHT."""


def css_variables(palette: Mapping[str, str]) -> str:
    """The palette as CSS variable declarations."""
    return "".join(f"--{role}:{colour};" for role, colour in palette.items())


def as_variable(role: str) -> str:
    """Colour role as painted on a page."""
    return f"var(--{role})"


def as_printed(role: str) -> str:
    """Colour role as painted in a file: light theme, on white."""
    return "#ffffff" if role == "ground" else LIGHT[role]


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
