"""Monthly views of the Wikipedia article of an entity in the year before the newer snapshot.

Input are Wikimedia's monthly files of page views (``pageviews-YYYYMM-user``, plain or .bz2 or .gz): project, title,
page id, access, views of the month, and views of each day, separated by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from kgedit.errors import SourceError, TimestepError

MONTHS = 12

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
        raise TimestepError(f"{path} is no file of page views. Its name must be pageviews-YYYYMM-user, as Wikimedia's.")
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
            f"INSERT INTO viewed SELECT ?, id, sum(views) FROM views JOIN {items} ON wiki_title = title GROUP BY id",  # noqa: S608 - our own names
            [month],
        )
        connection.unregister("views")
    return {"months": wanted, "files left out": len(files) - len(wanted), "rows": rows}
