"""Popularity from files of page views, and its substitute without such files."""

from __future__ import annotations

import bz2
import math
from pathlib import Path

import duckdb
import pytest

from kgedit.errors import SourceError, TimestepError
from kgedit.timesteps.specificity import months_before, project_of, read_page_views
from kgedit.timesteps.wikifactdiff.workspace import measure_popularity

KNOWN = """
    CREATE TABLE known AS FROM (VALUES
        ('Q1', 'item', 'Old town'), ('Q2', 'item', 'Young town'), ('Q3', 'item', 'Unread town'), ('Q4', 'item', NULL)
    ) AS t(id, kind, wiki_title);
    CREATE TABLE new_facts AS FROM (VALUES
        ('Q1', 'P31', 'Q50', 'item'), ('Q2', 'P31', 'Q50', 'item'), ('Q3', 'P31', 'Q50', 'item'),
        ('Q4', 'P31', 'Q51', 'item')
    ) AS t(subject, property, object, kind)
"""


def view(title: str, views: int, *, project: str = "en.wikipedia", access: str = "desktop") -> str:
    return f"{project} {title} 123 {access} {views} A{views}"


def write(folder: Path, month: int, *lines: str) -> Path:
    path = folder / f"pageviews-{month}-user.bz2"
    path.write_bytes(bz2.compress("".join(line + "\n" for line in lines).encode()))
    return path


def found(files: list[Path]) -> tuple[dict[str, tuple[float, str]], dict[str, object]]:
    workspace = duckdb.connect()
    workspace.execute(KNOWN)
    counts = measure_popularity(workspace, files, wiki="enwiki", date=20230227)
    rows = workspace.execute("SELECT id, popularity, basis FROM popularity").fetchall()
    return {name: (popularity, basis) for name, popularity, basis in rows}, counts


def test_it_is_the_median_of_the_months_since_the_article_was_first_read(tmp_path: Path) -> None:
    files = [
        write(tmp_path, 202211, view("Old_town", 10), view("Old_town", 2, access="mobile-web")),
        write(tmp_path, 202212, view("Old_town", 20), view("Young_town", 100)),
        write(tmp_path, 202301, view("Young_town", 300), view("Old_town", 9, project="de.wikipedia")),
        write(tmp_path, 202302, view("Old_town", 10**6)),
    ]
    result, counts = found(files)
    # Old town was read 12, 20 and 0 times; the month of the snapshot does not count. Young town 100 and 300 times.
    assert result["Q1"] == (pytest.approx(math.log(12 + 1), abs=1e-6), "page views")
    assert result["Q2"] == (pytest.approx(math.log(200 + 1), abs=1e-6), "page views")
    assert result["Q3"] == (pytest.approx(math.log((12 + 200) / 2 + 1), abs=1e-6), "class")
    assert result["Q4"] == (pytest.approx((math.log(13) + math.log(201)) / 2, abs=1e-6), "median of all")
    assert (counts["months"], counts["files left out"]) == ([202211, 202212, 202301], 1)
    assert counts["rows"] == {"read": 6, "kept": 5, "unreadable": 0}


def test_a_month_in_which_nobody_read_an_article_does_not_start_its_count(tmp_path: Path) -> None:
    files = [
        write(tmp_path, 202211, view("Young_town", 0), view("Old_town", 10)),
        write(tmp_path, 202212, view("Young_town", 100)),
        write(tmp_path, 202301, view("Young_town", 300)),
    ]
    assert found(files)[0]["Q2"] == (pytest.approx(math.log(200 + 1), abs=1e-6), "page views")


def test_without_files_nothing_is_popular() -> None:
    result, counts = found([])
    assert not result
    assert not counts["items"]


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path, 202301, "en.wikipedia Old_town", view("Old_town", 5), "en.wikipedia Old_town 1 desktop many A1"
    )
    table, counts = read_page_views(path, "en.wikipedia")
    assert (table.to_pylist(), counts["unreadable"]) == ([{"title": "Old town", "views": 5}], 2)


def test_a_file_that_is_none_and_a_month_given_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="must be pageviews-YYYYMM-user"):
        found([tmp_path / "views.txt"])
    (tmp_path / "b").mkdir()
    with pytest.raises(TimestepError, match="of one month"):
        found([write(tmp_path, 202301), write(tmp_path / "b", 202301)])
    broken = tmp_path / "pageviews-202301-user.bz2"
    broken.write_bytes(bz2.compress(b"en.wikipedia x 1 desktop 5 A5\n" * 10)[:-8])
    with pytest.raises(SourceError, match="cannot be read"):
        read_page_views(broken, "en.wikipedia")


def test_a_year_goes_back_over_new_years_day_and_a_wiki_has_a_project() -> None:
    assert months_before(20230101) == [202201 + month for month in range(12)]
    assert (project_of("enwiki"), project_of("zh_yuewiki")) == ("en.wikipedia", "zh-yue.wikipedia")
    with pytest.raises(TimestepError, match="commons"):
        project_of("commons")
