"""The interactive view of a home's snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import KgeditError
from kgedit.extras import names_extra
from kgedit.store.disk import disk_errors
from kgedit.verbs.home import Home

if TYPE_CHECKING:
    from kgedit.explorer.exports import ExportTask
    from kgedit.explorer.server import ExploreServer


@names_extra
def explore_server(
    home: Home | str | Path | None = None,
    *,
    port: int = 0,
    browser: str | None = None,
    told: Callable[[str], None] = lambda _said: None,
) -> ExploreServer:
    """Create a server for the changes between a home's snapshots; it listens at 127.0.0.1 but does not run yet.

    Derived files that make it fast are stored in the home's folder `explore` and created if missing.

    Args:
        home: The home; None means `$KGEDIT_HOME`.
        port: Port; 0 selects a free one.
        browser: Address of Neo4j Browser for links; None means that of the home's graph: its own server's at its
            current port, or that of `KGEDIT_GRAPH_URI`.
        told: Called with a message for each derived file that is created.

    Returns:
        Server with `url`, the address to open, and `run()`, which serves until the process is stopped.

    Raises:
        StoreError: if there is no snapshot, or another process is creating the derived files.
        KgeditError: if the port is in use, or `browser` is not an http address.
        MissingExtraError: if kgedit[serve] is not installed.
    """
    from kgedit.explorer.explorer import Explorer
    from kgedit.explorer.server import make_server
    from kgedit.graph.status import browser_of_home
    from kgedit.untrusted import is_web_address

    if browser is not None and not is_web_address(browser):
        raise KgeditError(f"'{browser}' is not the address of a page. Give one like http://localhost:7474/browser/")
    opened = home if isinstance(home, Home) else Home(home)

    def export(task: ExportTask) -> str:
        made = opened.export_timestep(task.older, task.newer, out=task.out, profile=task.profile, only=task.only)
        return f"{sum(made.manifest['cases'].values()):,} cases"

    with disk_errors(opened.path, again="give the same command again"):
        explorer = Explorer(opened.path, told=told)
    try:
        found = browser_of_home(opened.path) if browser is None else lambda: browser
        return make_server(explorer, export, port=port, browser=found)
    except BaseException:
        explorer.close()
        raise
