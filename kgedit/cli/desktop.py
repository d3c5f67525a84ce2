"""Opens pages in the user's browser, where there is a desktop."""

from __future__ import annotations

import os
import sys

import click

open_page = click.option(
    "--open/--no-open", "opens", default=True, show_default=True, help="Open the page, where there is a desktop."
)
"""Option of commands that end in a page."""


def open_in_browser(url: str) -> None:
    """Open a page. Does nothing on a server: a browser would open in the terminal or not at all."""
    shown = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.stdout.isatty() and shown:
        click.launch(url)
