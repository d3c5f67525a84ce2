"""Colours by role, light and dark: the Okabe-Ito palette, distinguishable with any colour vision.

Drawings use roles; a page paints them as CSS variables, which follow the theme, a file with the values of the light
theme.
"""

from __future__ import annotations

from collections.abc import Mapping

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
