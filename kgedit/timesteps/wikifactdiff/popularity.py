"""Popularity of an entity: ln(median monthly page views + 1) over the year before the newer snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from kgedit.timesteps.page_views import read_viewed
from kgedit.timesteps.wikifactdiff.workspace import count_by
from kgedit.wikidata.ids import INSTANCE_OF


def measure_popularity(
    workspace: duckdb.DuckDBPyConnection, files: Sequence[Path], *, wiki: str, date: int
) -> dict[str, object]:
    """Create ``popularity`` (id, popularity, basis) of every item with an article; empty without files.

    An article's first month is the first with a view, so that young articles are not penalized; later months without
    views count as 0. An item that is in no file gets the mean of one of its classes (the most popular one), or else
    the median of all.

    Args:
        workspace: Workspace with known, new_facts.
        files: One per month; those outside the year before `date` are left out.
        wiki: Wiki of the titles in the snapshots.
        date: Day number of the newer snapshot.

    Returns:
        Months used, files left out, rows by outcome, items by basis.

    Raises:
        TimestepError: if a month is given twice, or a file name contains no month.
        SourceError: if a file cannot be read.
    """
    counts = read_viewed(
        workspace, files, items="(SELECT id, wiki_title FROM known WHERE kind = 'item')", wiki=wiki, date=date
    )
    workspace.execute(_POPULARITY)
    return counts | {"items": count_by(workspace, "basis", "popularity")}


_POPULARITY = f"""
    CREATE TABLE popularity AS
    WITH started AS (
        SELECT id, min(month) AS first FROM viewed WHERE views > 0 GROUP BY id
    ), monthly AS (
        SELECT s.id, coalesce(v.views, 0) AS views FROM started s JOIN viewed_month w ON w.month >= s.first
        LEFT JOIN viewed v ON v.id = s.id AND v.month = w.month
    ), own AS (
        SELECT id, median(views) AS views FROM monthly GROUP BY id
    ), class AS (
        SELECT subject AS id, object AS class FROM new_facts WHERE property = '{INSTANCE_OF}' AND kind = 'item'
    ), of_class AS (
        SELECT class, ln(avg(views) + 1) AS popularity FROM class JOIN own USING (id) GROUP BY class
    ), by_class AS (
        SELECT id, max(popularity) AS popularity FROM class JOIN of_class USING (class) GROUP BY id
    )
    SELECT k.id, round(coalesce(ln(own.views + 1), by_class.popularity,
                                (SELECT median(ln(views + 1)) FROM own)), 6) AS popularity,
           CASE WHEN own.id IS NOT NULL THEN 'page views' WHEN by_class.id IS NOT NULL THEN 'class'
                ELSE 'median of all' END AS basis
    FROM known k LEFT JOIN own USING (id) LEFT JOIN by_class USING (id)
    WHERE k.kind = 'item' AND EXISTS (FROM own)
"""  # noqa: S608 - our own names
