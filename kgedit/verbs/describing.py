"""Composition of a timestep or of a file of edits."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import TimestepError
from kgedit.extras import names_extra
from kgedit.untrusted import is_web_address
from kgedit.verbs.written_files import write_files

if TYPE_CHECKING:
    import pyarrow as pa


@names_extra
def describe(path: str | Path, *, model: str | None = None) -> pa.Table:
    """Count the contents of edits: probes, funnel, triples, tags, scenarios, kinds, relations, years, popularity.

    Args:
        path: Folder of a timestep, or a file of edits in any form that `run` accepts.
        model: Model whose tokens are counted in addition to words: smollm2-135m, a folder, or a name on the hub.

    Returns:
        Columns part, name, value and share; value is null in rows that only list an entry, such as a new entity.

    Raises:
        TimestepError: if there are no edits.
        ModelError: if the model cannot be found.
    """
    from kgedit.timesteps.description import describe_edits
    from kgedit.timesteps.edit_files import open_edits

    edits = open_edits(Path(path))
    if model is None:
        return describe_edits(edits)
    from kgedit.verbs.editing import load_model

    loaded = load_model(model, device="cpu")
    return describe_edits(edits, count_tokens=lambda texts: [len(loaded.encode(text)) for text in texts])


@names_extra
def describe_page(
    path: str | Path,
    *,
    html: str | Path | None = None,
    figures: str | Path | None = None,
    word_cloud: str | Path | None = None,
    browser: str | None = None,
    overwrite: bool = False,
) -> tuple[Path, ...]:
    """Write a page about the changes, and its figures.

    Args:
        path: Folder of a timestep, or a file of edits.
        html: File for the page; None writes none.
        figures: Folder for its figures as SVG and PNG, which requires kgedit[figures]; None writes none.
        word_cloud: File for word clouds of subjects, relations and objects, as SVG; None writes none.
        browser: Address of Neo4j Browser for the page's links; None means http://localhost:7474/browser/.
        overwrite: Whether to replace a page with other content, and a folder of figures.

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

    if browser is not None and not is_web_address(browser):
        raise TimestepError(f"'{browser}' is not the address of a page. Give one like http://localhost:7474/browser/")
    html_file, folder, words = (None if one is None else Path(one) for one in (html, figures, word_cloud))
    if folder and folder.exists() and not overwrite:
        raise TimestepError(f"{folder} is there already. Replace it: --overwrite")
    command = shlex.join(["kgedit", "describe", str(path), "--html", str(html or "changes.html")])
    edits = open_edits(Path(path))
    documents = {}
    if words:
        clouds = word_figure(case.fact for case in edits.cases())
        if clouds is None:
            raise TimestepError(f"{path} has no cases, so there are no words to draw.")
        documents[words] = figure_svg(clouds)
    if html_file or folder:
        page = change_page(edits, command=command, browser=browser or BROWSER)
        documents |= {html_file: page.html} if html_file else {}
    written = write_files(documents, overwrite=overwrite) if documents else []
    if folder:
        write_figures(page.figures, folder)
        written.append(folder)
    return tuple(written)
