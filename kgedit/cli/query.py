"""``kgedit query``, ``find``, ``browse`` and ``explore``: query the graph in the terminal, or view it in a browser."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.formats import (
    open_in_browser,
    open_page,
    print_json,
    print_result,
    print_rows,
    result_format,
    rows_format,
)
from kgedit.cli.progress import say
from kgedit.cli.verb_command import verb_command
from kgedit.errors import GraphError
from kgedit.resources import data_folder
from kgedit.resources import home as default_home
from kgedit.verbs.explore import Explore
from kgedit.verbs.query import Browse, Find, RunQuery

if TYPE_CHECKING:
    from kgedit.graph.queries import Query


# First word of a statement, including writing ones (which are rejected as such), and more after it.
_CYPHER = re.compile(
    r"\s*(?://|/\*|(?:match|optional|return|with|unwind|call|show|explain|profile|cypher|use|load|foreach|create|merge|"
    r"detach|delete|set|remove|drop)\s)",
    re.IGNORECASE,
)


_MORE = (
    click.option("-p", "--parameter", "parameters", multiple=True, metavar="KEY=VALUE",
                 shell_complete=completion.query_parameters,
                 help="One parameter; repeat. For your own Cypher, a number is sent as a number and YYYY-MM-DD as the "
                 "day number of the graph; in quotes, as '\"2021\"', they are text."),
    click.option("--list", "listing", is_flag=True,
                 help="List the queries with what they find, take and return."),
    rows_format,
)  # fmt: skip


@verb_command(
    RunQuery,
    name="query",
    more=_MORE,
    examples=(
        "kgedit query --list",
        "kgedit query changed_edges -p from=2021-01-04 -p to=2023-02-27 --limit 10",
        'kgedit query --cypher "MATCH (s:Snapshot) RETURN s.date, s.source"',
    ),
)
def query(given: RunQuery, *, parameters: tuple[str, ...], listing: bool, form: str) -> None:
    """Run the query and print its rows, or list the queries."""
    if listing:
        _list(form)
        return
    if math.isnan(given.timeout):
        raise click.BadParameter("nan is no time.", param_hint="--timeout")
    name, cypher = given.name, given.cypher
    if name is not None and cypher is None and _CYPHER.match(name):
        name, cypher = None, name
    if (name is None) == (cypher is None):
        raise click.UsageError("Give either the name of a query (kgedit query --list) or Cypher.")
    texts = _given(parameters)
    values = texts if cypher is None else {key: _value(key, text) for key, text in texts.items()}
    rows = replace(given, name=name, cypher=cypher, parameters=values).run(default_home())
    print_rows(rows, form)


def _value(key: str, text: str) -> Any:
    from kgedit.graph.queries import read_value

    return read_value(key, text)


def _given(parameters: tuple[str, ...]) -> dict[str, str]:
    wrong = [text for text in parameters if "=" not in text]
    if wrong:
        raise GraphError(f"A parameter is given as KEY=VALUE; {wrong[0]!r} is not.")
    values: dict[str, str] = {}
    for key, _, value in (text.partition("=") for text in parameters):
        if key in values:
            raise GraphError(f"Parameter {key} is given twice. Give one value.")
        values[key] = value
    return values


def _list(form: str) -> None:
    from kgedit.graph.queries import read_queries

    if form == "json":
        print_json([_described(query_file) for query_file in read_queries().values()])
        return
    for query_file in read_queries().values():
        click.secho(query_file.name, bold=True)
        click.echo(f"  {query_file.finds}")
        for parameter in query_file.parameters:
            default = "" if parameter.required else f", default {parameter.default}"
            click.echo(f"    -p {parameter.name}=...  ({parameter.kind}{default}) {parameter.meaning}")
        for column, meaning in query_file.returns:
            click.echo(f"    -> {column}: {meaning}")


def _described(query_file: Query) -> dict[str, Any]:
    return {
        "name": query_file.name,
        "finds": query_file.finds,
        "parameters": [
            {"name": one.name, "kind": one.kind, "required": one.required, "default": one.default, "is": one.meaning}
            for one in query_file.parameters
        ],
        "returns": dict(query_file.returns),
    }


@verb_command(Find, name="find", words="name", more=(rows_format,), examples=("kgedit find Germany",))
def find(given: Find, *, form: str) -> None:
    """Print ids, labels and descriptions."""
    print_rows(given.run(default_home()).to_pylist(), form)


_PRINT = click.option("--print", "only_print", is_flag=True, help="Print the address and do not open a browser.")


@verb_command(
    Browse,
    name="browse",
    more=(_PRINT, result_format),
    examples=("kgedit browse --item Q183 --from 2021-01-04 --to 2023-02-27 --print",),
)
def browse(given: Browse, *, only_print: bool) -> None:
    """Print the page's address, and open it."""
    if (given.older is None) != (given.newer is None) or (given.older and given.item is None):
        raise click.UsageError("Give --from and --to together, and with --item.")
    page = given.run(default_home())
    style = data_folder("cypher") / "browser"
    result = {
        "url": page.url,
        "user": page.user,
        "password_file": page.password_file,
        "entry": page.entry,
        "style_folder": style,
    }
    print_result(result, text=page.url)
    if page.entry is not None:
        click.echo(f"Opens it without a password: {page.entry}", err=True)
    click.echo(f"User {page.user}, password in {page.password_file}", err=True)
    click.echo(f"Style sheet and saved queries: {style}", err=True)
    if not only_print:
        click.launch(page.url if page.entry is None else page.entry.as_uri())


@verb_command(
    Explore, name="explore", more=(open_page,), examples=("kgedit explore", "kgedit explore --no-open --port 8765")
)
def explore(given: Explore, *, opens: bool) -> None:
    """Print the page's address, open it, and serve until Ctrl-C."""
    server = replace(given, announce=say).run()
    click.echo(server.url)
    if opens:
        open_in_browser(server.url)
    server.run()
