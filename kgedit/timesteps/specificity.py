"""Specificity of cases: page views of the subject and the object, and their counts in a corpus.

Source: WikiBigEdit, section 3.3 and appendix B.4 ("specificity"); lower numbers mean higher specificity. Page views are
those of the year before the newer snapshot, from Wikimedia's monthly files (``pageviews-YYYYMM-user``, plain or .bz2 or
.gz): project, title, page id, access, views of the month, and views of each day, separated by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from kgedit.errors import SourceError, TimestepError
from kgedit.records.cases import SPECIFICITY
from kgedit.timesteps.corpus_counts import corpus_counts, corpus_version

MONTHS = 12
"""The year before the newer snapshot, over which WikiFactDiff measures popularity."""

_NAME = re.compile(r"pageviews-(\d{4})(\d\d)-user(\.[a-z0-9]+)?")
_COLUMNS = ["project", "title", "page", "access", "views", "days"]


def months_before(date: int, months: int = MONTHS) -> list[int]:
    """Months before that of a day number, as yyyymm, oldest first.

    >>> months_before(20230227, 3)
    [202211, 202212, 202301]
    """
    last = date // 10000 * 12 + date // 100 % 100 - 1
    return [month // 12 * 100 + month % 12 + 1 for month in range(last - months, last)]


def month_of(path: Path) -> int:
    """Month of a file of page views, as yyyymm.

    Raises:
        TimestepError: if its name contains none.
    """
    match = _NAME.fullmatch(path.name)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise TimestepError(
            f"{path} is not a file of page views. Its name must be pageviews-YYYYMM-user, as Wikimedia's."
        )
    return int(match[1] + match[2])


def project_of(wiki: str) -> str:
    """Name of a Wikipedia in the files: enwiki is en.wikipedia.

    Raises:
        TimestepError: if it is not a Wikipedia.
    """
    if not re.fullmatch(r"[a-z_]+wiki", wiki):
        raise TimestepError(f"Page views are those of a Wikipedia; the snapshots know articles of '{wiki}'.")
    return wiki.removesuffix("wiki").replace("_", "-") + ".wikipedia"


def read_page_views(path: Path, project: str) -> tuple[pa.Table, dict[str, int]]:
    """Read the views of the articles of a project in one month.

    Args:
        path: A file of page views, read as a stream.
        project: Project, such as "en.wikipedia".

    Returns:
        Columns title (with spaces) and views, one row per title and type of access; and rows read, kept and unreadable.

    Raises:
        SourceError: if the file cannot be read.
    """
    unreadable = 0

    def skip(_row: pcsv.InvalidRow) -> str:
        nonlocal unreadable
        unreadable += 1
        return "skip"

    options = {
        "read_options": pcsv.ReadOptions(column_names=_COLUMNS, use_threads=False),
        "parse_options": pcsv.ParseOptions(delimiter=" ", quote_char=False, invalid_row_handler=skip),
        "convert_options": pcsv.ConvertOptions(
            column_types=dict.fromkeys(_COLUMNS, pa.string()), include_columns=["project", "title", "views"]
        ),
    }
    kept, read = [], 0
    try:
        with pa.input_stream(str(path)) as stream:
            for batch in pcsv.open_csv(stream, **options):
                read += batch.num_rows
                own = batch.filter(pc.equal(batch["project"], project))
                counted = own.filter(pc.match_substring_regex(own["views"], r"^\d{1,15}$"))
                unreadable += own.num_rows - counted.num_rows
                titles = pc.replace_substring(counted["title"], "_", " ")
                kept.append(pa.table({"title": titles, "views": counted["views"].cast(pa.int64())}))
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"The page views {path} cannot be read: {error}. Get the file again.") from error
    empty = pa.table({"title": pa.array([], pa.string()), "views": pa.array([], pa.int64())})
    table = pa.concat_tables([empty, *kept])
    return table, {"read": read, "kept": table.num_rows, "unreadable": unreadable}


def read_viewed(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], *, items: str, wiki: str, date: int
) -> dict[str, object]:
    """Create ``viewed`` (month, id, views) and ``viewed_month`` (month): views of the articles of items.

    Args:
        connection: Connection for the tables.
        files: One per month; those outside the year before `date` are left out.
        items: SQL relation of the items: id and wiki_title.
        wiki: Wiki of the titles in the snapshots, such as "enwiki".
        date: Day number of the newer snapshot.

    Returns:
        Months used, files left out, and rows read, kept and unreadable.

    Raises:
        TimestepError: if a month is given twice, or a file's name has no month.
        SourceError: if a file cannot be read.
    """
    months = {month_of(path): path for path in files}
    if len(months) < len(files):
        raise TimestepError("Two files of page views are of one month. Give each month once.")
    wanted = [month for month in months_before(date) if month in months]
    rows = {"read": 0, "kept": 0, "unreadable": 0}
    connection.execute("CREATE TABLE viewed (month INTEGER, id VARCHAR, views BIGINT)")
    connection.execute("CREATE TABLE viewed_month AS SELECT unnest(?::INTEGER[]) AS month", [wanted])
    for month in wanted:
        table, counts = read_page_views(months[month], project_of(wiki))
        rows = {name: rows[name] + counts[name] for name in rows}
        connection.register("views", table)
        connection.execute(
            f"INSERT INTO viewed SELECT ?, id, sum(views) FROM views JOIN {items} ON wiki_title = title GROUP BY id",
            [month],
        )
        connection.unregister("views")
    return {"months": wanted, "files left out": len(files) - len(wanted), "rows": rows}


def measure_specificity(
    connection: duckdb.DuckDBPyConnection, cases: pa.Table, *, counts: Path | None
) -> tuple[pa.Table, dict[str, Any]]:
    """Compute the columns of SPECIFICITY for cases.

    Args:
        connection: Connection with ``known`` (id, wiki_title) and, if page views were given, ``viewed`` and
            ``viewed_month`` (kgedit.timesteps.specificity).
        cases: Cases with case_id, subject, object and their labels.
        counts: Counts of a corpus, or its texts (kgedit.timesteps.corpus_counts); None leaves counts null.

    Returns:
        case_id and the four columns, in the order of cases, null if unknown; and for the manifest the number of cases
        with each, empty if nothing was measured.
    """
    sides = cases.select(["case_id", "subject", "subject_label", "object", "object_label"])
    corpus = _read_counts(counts, sides)
    counted = pa.table(
        {"name": pa.array(list(corpus), pa.string()), "count": pa.array(list(corpus.values()), pa.int64())}
    )
    connection.register("sides", sides)
    connection.register("counted", counted)
    try:
        found: pa.Table = connection.sql(_SPECIFICITY.format(views=_views(connection))).to_arrow_table()
    finally:
        connection.unregister("sides")
        connection.unregister("counted")
    return found, {
        name: len(found) - found[name].null_count for name in SPECIFICITY if found[name].null_count < len(found)
    }


def read_case_views(
    connection: duckdb.DuckDBPyConnection, cases: pa.Table, files: Sequence[Path], *, wiki: str, date: int
) -> dict[str, object]:
    """Create ``viewed`` and ``viewed_month`` for the subjects and objects of cases; see `read_viewed` for arguments."""
    connection.register("sides", cases.select(["subject", "object"]))
    try:
        connection.execute(
            "CREATE TABLE case_item AS SELECT id, wiki_title FROM known "
            "WHERE id IN (SELECT subject FROM sides UNION SELECT object FROM sides)"
        )
    finally:
        connection.unregister("sides")
    return read_viewed(connection, files, items="case_item", wiki=wiki, date=date)


def specificity_provenance(pageviews: Mapping[str, str] | None, counts: Path | None) -> dict[str, Any]:
    """Settings for a manifest: files of page views and of counts with their hashes, each only if given."""
    found: dict[str, Any] = {} if not pageviews else {"pageviews": dict(pageviews)}
    return found | ({"counts": corpus_version(counts)} if counts else {})


def _read_counts(counts: Path | None, sides: pa.Table) -> Mapping[str, int]:
    if counts is None:
        return {}
    labels = {label for side in ("subject", "object") for label in sides[f"{side}_label"].to_pylist() if label}
    return corpus_counts(counts, sorted(labels))


def _views(connection: duckdb.DuckDBPyConnection) -> str:
    """SQL of id and views in all months; 0 for an article without views. No rows without files."""
    there = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'viewed'").fetchall()[0][0]
    if not there:
        return "SELECT NULL::VARCHAR AS id, NULL::BIGINT AS views WHERE false"
    return """
        SELECT k.id, coalesce(sum(v.views), 0)::BIGINT AS views FROM known k LEFT JOIN viewed v USING (id)
        WHERE k.wiki_title IS NOT NULL AND EXISTS (FROM viewed_month)
        AND k.id IN (SELECT subject FROM sides UNION SELECT object FROM sides) GROUP BY k.id
    """


_SPECIFICITY = """
    WITH views AS ({views})
    SELECT case_id, s.views AS subject_views, o.views AS object_views,
           coalesce(si."count", sl."count") AS subject_count, coalesce(oi."count", ol."count") AS object_count
    FROM (SELECT *, row_number() OVER () AS place FROM sides) c
    LEFT JOIN views s ON s.id = c.subject LEFT JOIN views o ON o.id = c.object
    LEFT JOIN counted si ON si.name = c.subject LEFT JOIN counted sl ON sl.name = c.subject_label
    LEFT JOIN counted oi ON oi.name = c.object LEFT JOIN counted ol ON ol.name = c.object_label
    ORDER BY place
"""
