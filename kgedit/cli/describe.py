"""``kgedit describe``: counts the contents of a timestep or a file of edits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kgedit.cli import completion
from kgedit.cli.examples import examples
from kgedit.cli.formats import rows_format


@click.command(
    epilog=examples(
        "kgedit describe kgedit-data/timesteps/20210104_20230227",
        "kgedit describe kgedit-data/timesteps/20210104_20230227 --html changes.html",
        "kgedit describe 2021-01-04..2023-02-27 --word-cloud words.svg",
        "kgedit describe counterfact-edit.json --model smollm2-135m --format json",
    )
)
@click.argument("timestep", type=click.Path(path_type=Path), shell_complete=completion.timesteps)
@click.option("--model", metavar="NAME", shell_complete=completion.models, help="Also count the tokens of this model.")
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an HTML page: charts, all cases with search, and why other changes are not cases.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the page's figures here as SVG and PNG, sized for a paper.",
)
@click.option(
    "--word-cloud",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write word clouds of subjects, relations and objects as SVG.",
)
@click.option(
    "--browser", metavar="URL", help="Address of Neo4j Browser for the page's links, as printed by browse --print."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing page and figures.")
@click.option("--limit", default=15, show_default=True, type=click.IntRange(min=1),
              help="Maximum lines per part in the table; json and csv have all.")  # fmt: skip
@rows_format
def describe(
    timestep: Path,
    model: str | None,
    html_file: Path | None,
    figures: Path | None,
    word_cloud: Path | None,
    browser: str | None,
    overwrite: bool,
    limit: int,
    form: str,
) -> None:
    """Count the contents of a timestep or a file of edits.

    TIMESTEP is an exported timestep (its folder, its name in the home's benchmark folder, or two dates as
    2021-01-04..2023-02-27), or a file that `run-edit --edits` accepts. The output counts, where available: cases and
    probes, the funnel, distinct triples, subjects, relations and objects (WikiFactDiff's table 2), new entities, tags,
    scenarios, kinds of change, relations, years of the facts, words (and tokens) of questions and answers, deciles of
    popularity, and views and counts of subjects and objects. The page of --html is a single file that makes no network
    requests.
    """
    from kgedit.cli.progress import say
    from kgedit.cli.query import print_rows
    from kgedit.verbs.describing import describe as described
    from kgedit.verbs.describing import describe_page

    rows = described(timestep, model=model).to_pylist()
    print_rows(list(_shortened(rows, limit)) if form == "table" else rows, form)
    if html_file or figures or word_cloud:
        written = describe_page(
            timestep, html=html_file, figures=figures, word_cloud=word_cloud, browser=browser, overwrite=overwrite
        )
        for path in written:
            say(f"Written: {path}")


def _shortened(rows: list[dict[str, Any]], limit: int) -> list[dict[str, str]]:
    """First lines of each part, with a line that counts the remaining ones."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    shown = []
    for part, own in parts.items():
        shown += [_shown(row) for row in own[:limit]]
        if len(own) > limit:
            shown.append({"part": part, "name": f"{len(own) - limit:,} more: --limit", "value": "", "share": ""})
    return shown


def _shown(row: dict[str, Any]) -> dict[str, str]:
    value, share = row["value"], row["share"]
    if value is None:
        return {"part": row["part"], "name": row["name"], "value": "", "share": ""}
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    # A day is not a quantity.
    number = f"{value:.0f}" if row["part"] == "dates" else number
    return {"part": row["part"], "name": row["name"], "value": number, "share": "" if share is None else f"{share:.1%}"}
