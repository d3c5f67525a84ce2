"""The page of `kgedit explore`: it contains no data and requests all of it from the server."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.pages.shell import policy_of, render

_SCRIPTS = ("explore_base.js", "explore_cards.js", "explore_item.js", "explore_selection.js", "explore.js")


@dataclass(frozen=True, slots=True)
class ExplorePage:
    """The page.

    Attributes:
        html: HTML of the page.
        policy: Content security policy: only its own script, and requests only to its own server.
    """

    html: str
    policy: str


def explore_page() -> ExplorePage:
    """Render the page, which is the same for every home."""
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
