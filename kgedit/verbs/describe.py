"""`describe` and `audit`: the composition of a timestep or of a file of edits, and a check against two snapshots."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import TimestepError
from kgedit.files import write_files
from kgedit.resources import use_home
from kgedit.untrusted import is_web_address
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import AnyFile, AnyFolder, AnyPath, Day, HomeVerb, Verb, argument, flag, function_of, options

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.timesteps.audit import Audit


@options
class EditsOption:
    """The edits to describe."""

    edits: AnyPath = argument(
        kw_only=False,
        metavar="TIMESTEP",
        complete="timesteps",
        help="A timestep, or a file of edits in any form that `run-edit --edits` accepts.",
    )


@options
class DescribeEdits(EditsOption, Verb["pa.Table"]):
    """Count the contents of a timestep or a file of edits.

    TIMESTEP is an exported timestep (its folder, its name in the home, or two dates as 2021-01-04..2023-02-27), or a
    file that `run-edit --edits` accepts. The output counts, where available: cases and probes, the funnel, distinct
    triples, subjects, relations and objects (WikiFactDiff's table 2), new entities, tags, scenarios, kinds of change,
    relations, years of the facts, words (and tokens) of questions and answers, deciles of popularity, and views and
    counts of subjects and objects. The page of --html is a single file that makes no network requests.
    """

    model: str | None = flag(
        default=None, group="Model", metavar="NAME", complete="models", help="Also count the tokens of this model."
    )

    def run(self) -> pa.Table:
        """Count them.

        Returns:
            Columns part, name, value and share; value is null in rows that only list an entry, such as a new entity.

        Raises:
            TimestepError: if there are no edits.
            ModelError: if the model cannot be found.
        """
        from kgedit.timesteps.description import describe_edits
        from kgedit.timesteps.edit_files import open_edits

        edits = open_edits(Path(self.edits))
        if self.model is None:
            return describe_edits(edits)
        from kgedit.verbs.editing import load_model

        loaded = load_model(self.model, device="cpu")
        return describe_edits(edits, count_tokens=lambda texts: [len(loaded.encode(text)) for text in texts])


@options
class DescribePage(EditsOption, Verb[tuple[Path, ...]]):
    """Write a page about the changes, and its figures."""

    html: AnyFile | None = flag(
        default=None,
        group="Output",
        help="Write an HTML page: charts, all cases with search, and why other changes are not cases.",
    )
    figures: AnyFolder | None = flag(
        default=None,
        group="Output",
        help="Write the page's figures here as SVG and PNG, sized for a paper (kgedit[figures]).",
    )
    word_cloud: AnyFile | None = flag(
        default=None, group="Output", help="Write word clouds of subjects, relations and objects as SVG."
    )
    browser: str | None = flag(
        default=None,
        group="Output",
        rare=True,
        metavar="URL",
        help="Address of Neo4j Browser for the page's links, as printed by graph status. Default: "
        "http://localhost:7474/browser/.",
    )
    overwrite: bool = flag(default=False, group="Output", help="Replace an existing page and figures.")

    def run(self) -> tuple[Path, ...]:
        """Write them.

        Returns:
            The written files.

        Raises:
            TimestepError: if there are no edits, such a file or folder exists, or `browser` is not an http address.
            MissingExtraError: if figures are requested and the packages that draw them are not installed.
        """
        from kgedit.pages.change_figures import word_figure
        from kgedit.pages.change_page import BROWSER, change_page
        from kgedit.pages.figure_files import figure_svg, write_figures
        from kgedit.timesteps.edit_files import open_edits

        if self.browser is not None and not is_web_address(self.browser):
            raise TimestepError(
                f"'{self.browser}' is not the address of a page. Give one like http://localhost:7474/browser/"
            )
        html_file, folder, words = (
            None if one is None else Path(one) for one in (self.html, self.figures, self.word_cloud)
        )
        if folder and folder.exists() and not self.overwrite:
            raise TimestepError(f"{folder} already exists. Replace it: --overwrite")
        command = shlex.join(["kgedit", "describe", str(self.edits), "--html", str(self.html or "changes.html")])
        edits = open_edits(Path(self.edits))
        documents = {}
        if words:
            clouds = word_figure(case.fact for case in edits.cases())
            if clouds is None:
                raise TimestepError(f"{self.edits} has no cases, so there are no words to draw.")
            documents[words] = figure_svg(clouds)
        if html_file or folder:
            page = change_page(edits, command=command, browser=self.browser or BROWSER)
            documents |= {html_file: page.html} if html_file else {}
        written = write_files(documents, overwrite=self.overwrite) if documents else []
        if folder:
            write_figures(page.figures, folder)
            written.append(folder)
        return tuple(written)


describe = function_of(DescribeEdits, name="describe")
describe_page = function_of(DescribePage)


@options
class AuditEdits(HomeVerb["Audit"]):
    """Check a file of edits against two snapshots.

    FILE is any file that `run-edit --edits` accepts, or a timestep: its folder, its name in the home, or two dates as
    2021-01-04..2023-02-27. Labels are resolved to ids if ids are missing. A row is valid if its edit is a current main
    statement that changed in the window, its locality questions ask for facts that did not change, and its two-hop
    questions depend on the edit. The table counts verdicts and reasons with 95 % intervals (Wilson). A valid row is not
    an update if, for example, the change is a late entry or a refinement: a second table counts the valid rows by kind
    of change, with the mean confidence of each kind. csv has one line per row of the file; json has all of these. Reads
    the store; no server is needed.
    """

    file: AnyPath = argument(kw_only=False, complete="timesteps", help="File of edits, or a timestep.")
    older: Day = flag(
        "--from",
        kw_only=False,
        complete="snapshot_dates",
        help="Date of the older snapshot, in which the edits must not be true yet.",
    )
    newer: Day = flag(
        "--to",
        kw_only=False,
        complete="snapshot_dates",
        help="Date of the newer snapshot, in which they must be true.",
    )

    def run(self, home: Path) -> Audit:
        """Check it.

        Raises:
            StoreError: if a snapshot is not loaded.
            TimestepError: if the file cannot be read, or the dates are reversed.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import list_snapshots, open_snapshot
        from kgedit.timesteps.audit import audit_edits
        from kgedit.timesteps.edit_files import open_edits

        old, new = (open_snapshot(home, read_date(date)) for date in (self.older, self.newer))
        earlier = [snapshot for snapshot in list_snapshots(home) if snapshot.date < old.date]
        spill = home / "snapshots" / f".audit-{os.getpid()}"
        with use_home(home), disk_errors(home, again="give the same command again"):
            return audit_edits(open_edits(Path(self.file)), old, new, earlier, spill=spill)
