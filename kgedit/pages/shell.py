"""Frame of the HTML pages, and data and texts embedded in them.

A page needs no network requests. Its content security policy allows the hashes of its own scripts, and nothing else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Generic, TypeVar

import jinja2

from kgedit import __version__
from kgedit.pages.marks import DARK, LIGHT, Drawing, as_printed, as_variable, css_variables, to_svg

# Base64 does not contain "<", so no label can close the element that contains it. The page unpacks the data with
# DecompressionStream.


Value = TypeVar("Value", bound=Hashable)

NOTHING = -1
"""Index of a missing value."""


class Numbered(Generic[Value]):
    """Distinct values, numbered in the order of first appearance."""

    def __init__(self, first: Iterable[Value] = ()) -> None:
        self._numbers: dict[Value, int] = {}
        for value in first:
            self.number(value)

    def number(self, value: Value | None) -> int:
        """Number of a value; NOTHING for None."""
        if value is None:
            return NOTHING
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Value]:
        """Values in the order of their numbers."""
        return list(self._numbers)


def packed(data: Any) -> str:
    """Compress data as JSON in base64; the same data gives the same text."""
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(written, compresslevel=9, mtime=0)).decode("ascii")


_FOLDER = files("kgedit.pages")


def render(template: str, *, styles: Sequence[str], scripts: Sequence[str], **values: Any) -> str:
    """Render a whole page.

    Args:
        template: File under templates/.
        styles: Files under assets/, in order, after the shared ones.
        scripts: Files under assets/, in order, after the shared ones.
        values: Values for the template, escaped as text. A ``policy`` replaces that of `policy_of`.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            styles=_theme() + "\n".join(_asset(name) for name in ("shell.css", *styles)),
            script=_script(scripts),
            version=__version__,
            **{"policy": policy_of(scripts)} | values,
        )
    )


def policy_of(scripts: Sequence[str], *, asks_server: bool = False) -> str:
    """Content security policy of a page.

    Args:
        scripts: Files under assets/; see `render`.
        asks_server: Whether its scripts may send requests to its own server.
    """
    digest = base64.b64encode(hashlib.sha256(_script(scripts).encode()).digest()).decode("ascii")
    connects = " connect-src 'self';" if asks_server else ""
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline';{connects} "
        "base-uri 'none'; form-action 'none'"
    )


def _script(names: Sequence[str]) -> str:
    return "\n".join(_asset(name) for name in ("shell.js", *names))


def _asset(name: str) -> str:
    return (_FOLDER / "assets" / name).read_text(encoding="utf-8")


def _theme() -> str:
    light, dark = css_variables(LIGHT), css_variables(DARK)
    paper = css_variables({role: as_printed(role) for role in LIGHT})
    # The reader's choice overrides the system preference; print is light.
    return (
        f":root{{{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{color-scheme:light;{paper}}}}}\n"
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kgedit.pages", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["svg"] = _svg
    environment.filters["thousands"] = "{:,}".format
    return environment


def _svg(drawing: Drawing) -> str:
    """A drawing at its own size; its marks escape their own text."""
    from markupsafe import Markup

    size = f'width="{drawing.width:.0f}" height="{drawing.height:.0f}"'
    return Markup(to_svg(drawing, as_variable, attributes=size))
