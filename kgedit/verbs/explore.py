"""The interactive view of a home's snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Le

from kgedit.errors import KgeditError
from kgedit.verbs.options import Verb, flag, function_of, options, python_only

if TYPE_CHECKING:
    from kgedit.pages.explorer.exports import ExportTask
    from kgedit.pages.explorer.server import ExploreServer


@options
class Explore(Verb["ExploreServer"]):
    """Explore the changes between the loaded snapshots.

    Serves a page on this machine: find an item by name and see its statements in every snapshot, choose two dates and
    see what changed between them, or create a timestep from selected changes. Only a browser with the printed address,
    which contains a token, gets answers. Press Ctrl-C to stop. The first start creates small files in
    $KGEDIT_HOME/explore.
    """

    home: Any = python_only(
        default=None, kw_only=False, help="The home, as an object or its folder; None means `$KGEDIT_HOME`."
    )
    port: Annotated[int, Le(65535)] = flag(
        default=0, ge=0, default_help=False, help="Port at 127.0.0.1. Default: a free one."
    )
    browser: str | None = flag(
        default=None,
        metavar="URL",
        help="Address of Neo4j Browser for links. Default: that of the home's graph.",
    )
    announce: Callable[[str], None] | None = python_only(
        default=None, help="Called with a message for each derived file that is created."
    )

    def run(self) -> ExploreServer:
        """Create the server; it listens at 127.0.0.1 but does not run yet.

        Returns:
            Server with `url`, the address to open, and `run()`, which serves until the process is stopped.

        Raises:
            StoreError: if there is no snapshot, or another process is creating the derived files.
            KgeditError: if the port is in use, or `browser` is not an http address.
            MissingExtraError: if kgedit[serve] is not installed.
        """
        from kgedit.graph.state import browser_of_home
        from kgedit.pages.explorer import Explorer
        from kgedit.pages.explorer.server import make_server
        from kgedit.store.disk import disk_errors
        from kgedit.untrusted import is_web_address
        from kgedit.verbs.home import Home

        if self.browser is not None and not is_web_address(self.browser):
            raise KgeditError(
                f"'{self.browser}' is not the address of a page. Give one like http://localhost:7474/browser/"
            )
        opened = self.home if isinstance(self.home, Home) else Home(self.home)

        def export(task: ExportTask) -> str:
            made = opened.export_timestep(task.older, task.newer, out=task.out, profile=task.profile, only=task.only)
            return f"{sum(made.manifest['cases'].values()):,} cases"

        with disk_errors(opened.path, again="give the same command again"):
            explorer = Explorer(opened.path, announce=self.announce or (lambda _message: None))
        try:
            found = browser_of_home(opened.path) if self.browser is None else lambda: self.browser
            return make_server(explorer, export, port=self.port, browser=found)
        except BaseException:
            explorer.close()
            raise


explore_server = function_of(Explore, name="explore_server")
