"""How often people read about an entity: ln(median monthly page views + 1) over the year before the newer snapshot.

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
from kgedit.timesteps.wikifactdiff.workspace import count_by
from kgedit.wikidata.ids import INSTANCE_OF

MONTHS = 12

_NAME = re.compile(r"pageviews-(\d{4})(\d\d)-user(\.[a-z0-9]+)?")
_COLUMNS = ["project", "title", "page", "access", "views", "days"]


def months_before(date: int, months: int = MONTHS) -> list[int]:
    """The months before that of a day number, as yyyymm, oldest first.

    >>> months_before(20230227, 3)
    [202211, 202212, 202301]
    """
    last = date // 10000 * 12 + date // 100 % 100 - 1
    return [month // 12 * 100 + month % 12 + 1 for month in range(last - months, last)]


def month_of(path: Path) -> int:
    """The month of a file of page views, as yyyymm.

    Raises:
        TimestepError: if its name does not say.
    """
    match = _NAME.fullmatch(path.name)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise TimestepError(f"{path} is no file of page views. Its name must be pageviews-YYYYMM-user, as Wikimedia's.")
    return int(match[1] + match[2])


def project_of(wiki: str) -> str:
    """What the files call a Wikipedia: enwiki is en.wikipedia.

    Raises:
        TimestepError: if it is none.
    """
    if not re.fullmatch(r"[a-z_]+wiki", wiki):
        raise TimestepError(f"Page views are those of a Wikipedia; the snapshots know articles of '{wiki}'.")
    return wiki.removesuffix("wiki").replace("_", "-") + ".wikipedia"


def read_page_views(path: Path, project: str) -> tuple[pa.Table, dict[str, int]]:
    """Views of the articles of a project in one month.

    Args:
        path: A file of page views, read as a stream.
        project: Such as "en.wikipedia".

    Returns:
        Columns title (with spaces) and views, a title once for each way of access; and rows read, kept and unreadable.

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


def measure_popularity(
    workspace: duckdb.DuckDBPyConnection, files: Sequence[Path], *, wiki: str, date: int
) -> dict[str, object]:
    """Table ``popularity`` (id, popularity, basis) of every item with an article; empty without files.

    An article's first month is the first in which it was read, so that young articles are not punished; later months
    without views count as none. An item that is in no file takes the mean of a class of its own (the most popular of
    its classes), else the median of all.

    Args:
        workspace: With known, new_facts.
        files: One for each month; those outside the year before `date` are left out.
        wiki: Whose titles the snapshots know.
        date: Day number of the newer snapshot.

    Returns:
        Months used, files left out, rows by what became of them, items by basis.

    Raises:
        TimestepError: if a month is given twice, or a name says no month.
        SourceError: if a file cannot be read.
    """
    months = {month_of(path): path for path in files}
    if len(months) < len(files):
        raise TimestepError("Two files of page views are of one month. Give each month once.")
    wanted = [month for month in months_before(date) if month in months]
    rows = {"read": 0, "kept": 0, "unreadable": 0}
    workspace.execute("CREATE TABLE viewed (month INTEGER, id VARCHAR, views BIGINT)")
    for month in wanted:
        table, counts = read_page_views(months[month], project_of(wiki))
        rows = {name: rows[name] + counts[name] for name in rows}
        workspace.register("views", table)
        workspace.execute(
            "INSERT INTO viewed SELECT ?, id, sum(views) FROM views JOIN known ON wiki_title = title "
            "WHERE kind = 'item' GROUP BY id",
            [month],
        )
        workspace.unregister("views")
    workspace.register("wanted", pa.table({"month": pa.array(wanted, pa.int32())}))
    workspace.execute(_POPULARITY)
    workspace.unregister("wanted")
    return {
        "months": wanted,
        "files left out": len(files) - len(wanted),
        "rows": rows,
        "items": count_by(workspace, "basis", "popularity"),
    }


_POPULARITY = f"""
    CREATE TABLE popularity AS
    WITH started AS (
        SELECT id, min(month) AS first FROM viewed WHERE views > 0 GROUP BY id
    ), monthly AS (
        SELECT s.id, coalesce(v.views, 0) AS views FROM started s JOIN wanted w ON w.month >= s.first
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
