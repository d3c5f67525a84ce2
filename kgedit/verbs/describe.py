"""Composition of a timestep or of a file of edits."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import TimestepError
from kgedit.files import check_outputs, write_files
from kgedit.untrusted import is_web_address
from kgedit.verbs.options import AnyFile, AnyFolder, AnyPath, Verb, argument, flag, function_of, options

if TYPE_CHECKING:
    import pyarrow as pa


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
        """Count the cases, questions and entities of the edits.

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
        """Write the page and its figures.

        Returns:
            The written files.

        Raises:
            TimestepError: if there are no edits, such a file or folder exists, two have the same path, or `browser` is
                not an http address.
            MissingExtraError: if figures are requested and the packages that draw them are not installed.
        """
        from kgedit.pages.change_figures import word_figure
        from kgedit.pages.change_page import BROWSER, change_page
        from kgedit.pages.marks import figure_svg, write_figures
        from kgedit.timesteps.edit_files import open_edits

        if self.browser is not None and not is_web_address(self.browser):
            raise TimestepError(
                f"'{self.browser}' is not the address of a page. Give one like http://localhost:7474/browser/"
            )
        html_file, folder, words = (
            None if one is None else Path(one) for one in (self.html, self.figures, self.word_cloud)
        )
        check_outputs(path for path in (html_file, folder, words) if path)
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
