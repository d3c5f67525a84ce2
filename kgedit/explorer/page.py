"""The page of `kgedit explore`: a frame without data, which asks the server for all of it."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.pages.shell import policy_of, render

_SCRIPTS = ("explore_base.js", "explore_cards.js", "explore_item.js", "explore_selection.js", "explore.js")


@dataclass(frozen=True, slots=True)
class ExplorePage:
    """The page.

    Attributes:
        html: Its text.
        policy: Content security policy: its own script, and requests to its own server only.
    """

    html: str
    policy: str


def explore_page() -> ExplorePage:
    """The page; the same for every home."""
    policy = policy_of(_SCRIPTS, asks_server=True)
    html = render(
        "explore.html.j2",
        styles=["changes.css", "explore.css"],
        scripts=_SCRIPTS,
        policy=policy,
        title="What changed: kgedit explore",
        brand="kgedit explore",
        sections=[
            ("window", "Two dates"),
            ("find", "Find an item"),
            ("changes", "What changed"),
            ("timesteps", "Timesteps"),
        ],
    )
    return ExplorePage(html, policy + "; frame-ancestors 'none'")
