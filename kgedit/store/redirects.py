"""Redirects of a snapshot, from the dump and from a file, each resolved to the end of its chain.

An id that the dump describes as an entity is not a redirect, and an id has one target. Rejected redirects are counted
by the reasons below.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.errors import SourceError
from kgedit.wikidata.ids import NUMBER
from kgedit.wikidata.times import day_number

OF_AN_ENTITY = "redirect of an entity that the dump holds"
"""Counted once per id; the entity is kept."""

TO_SEVERAL = "redirect to another target as well"
"""Counted per rejected target. The dump's targets take precedence over the file's, then the first in text order."""

IN_A_CYCLE = "redirect in a cycle"

_LINE = re.compile(rf"(([QPL]){NUMBER})\t(\2{NUMBER})(?:\t(\d{{4}})-?(\d\d)-?(\d\d))?")

_ID = re.compile(r"[QPL]\d")

_FORM = (
    "Write two ids of one kind: from, tab, to, and if known another tab and the first date (Q1<tab>Q2<tab>2021-03-01)."
)

_STATED = pa.schema([("source", pa.string()), ("target", pa.string())])

_LONGEST_CHAIN = 2**16
"""No chain of redirects is longer; one that has not ended after this many steps is a cycle."""

_FOLLOW = """
    CREATE OR REPLACE TEMP TABLE redirect AS
    SELECT r.source, coalesce(next.target, r.target) AS target
    FROM redirect r LEFT JOIN redirect next ON next.source = r.target
"""
"""Each execution doubles the number of steps that redirects are followed."""

REDIRECT_ROWS = "SELECT source, target FROM redirect WHERE target NOT IN (SELECT source FROM redirect) ORDER BY source"
"""Redirects of a snapshot, from the table created by `make_redirects`."""


@dataclass(frozen=True, slots=True)
class GivenRedirects:
    """Redirects read from a file.

    Attributes:
        targets: Target of each source.
        others: Further targets of the same day, which are rejected.
    """

    targets: dict[str, str] = field(default_factory=dict)
    others: int = 0


def read_redirects(path: Path, until: int) -> GivenRedirects:
    """Read the redirects of a tab-separated file (from, to, optionally the first date) up to a day number.

    If an id has several redirects, the latest one counts; of several with the same date, the last line counts. Blank
    lines and a heading are allowed; a first line that begins with an id is not a heading.

    Raises:
        SourceError: with the first invalid line, or if there is no redirect at all.
    """
    latest: dict[str, tuple[int, str]] = {}
    others: dict[str, set[str]] = {}
    lines = redirects = 0
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            lines += bool(line.strip())
            redirect = _redirect_in(line.strip())
            if redirect is None:
                if not line.strip() or (number == 1 and not _ID.match(line.strip())):
                    continue
                raise SourceError(f"Line {number} of {path} is not a redirect: {line.strip()!r}. {_FORM}")
            redirects += 1
            source, target, first = redirect
            before, known = latest.get(source, (0, target))
            if first > until or first < before:
                continue
            if first > before:
                others.pop(source, None)
            elif known != target:
                others.setdefault(source, {known}).add(target)
            latest[source] = (first, target)
    if lines and not redirects:
        raise SourceError(f"{path} contains no redirect. {_FORM}")
    targets = {source: target for source, (_, target) in latest.items()}
    return GivenRedirects(targets, sum(len(found) - 1 for found in others.values()))


def _redirect_in(line: str) -> tuple[str, str, int] | None:
    """Source, target and first day (0 if there is none) of a line; None if it is not a redirect of possible ids."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    source, _, target, *day = match.groups()
    first = _day_of(*day) if day[0] else 0
    return None if first is None else (source, target, first)


@cache  # redirects outnumber days by far
def _day_of(*parts: str) -> int | None:
    try:
        return day_number(datetime.date(*map(int, parts)))
    except ValueError:
        return None


def make_redirects(connection: duckdb.DuckDBPyConnection, entities: str, given: GivenRedirects) -> dict[str, int]:
    """Create table ``redirect`` (source, target): ids that the dump does not describe, with the end of their chains.

    Args:
        connection: Connection that gets the table.
        entities: SQL of the rows of the dump, with the columns ENTITIES.
        given: Further redirects from a file.

    Returns:
        Number of rejected redirects, by reason.
    """
    rows = pa.table([list(given.targets), list(given.targets.values())], schema=_STATED)
    connection.register("given", rows)
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE stated AS
        SELECT DISTINCT id AS source, redirect_target AS target, false AS by_file FROM {entities}
        WHERE redirect_target IS NOT NULL
        UNION ALL SELECT source, target, true FROM given
        """
    )
    connection.unregister("given")
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE described AS
        SELECT DISTINCT source FROM {entities} JOIN stated ON id = source WHERE redirect_target IS NULL
        """
    )
    connection.execute(
        """
        CREATE OR REPLACE TEMP TABLE redirect AS
        SELECT source, arg_min(target, (by_file, target)) AS target FROM stated ANTI JOIN described USING (source)
        GROUP BY source
        """
    )
    believed = _count(connection, "redirect")
    stated = _count(connection, "(SELECT DISTINCT source, target FROM stated ANTI JOIN described USING (source))")
    described = _count(connection, "described")
    reach, longer = 1, "redirect WHERE target IN (SELECT source FROM redirect)"
    while reach < _LONGEST_CHAIN and _count(connection, longer):
        connection.execute(_FOLLOW)
        reach *= 2
    in_cycles = _count(connection, longer)
    return {OF_AN_ENTITY: described, TO_SEVERAL: stated - believed + given.others, IN_A_CYCLE: in_cycles}


def _count(connection: duckdb.DuckDBPyConnection, rows: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {rows}").fetchall()[0][0])
