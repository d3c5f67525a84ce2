"""Threads and memory of the store's DuckDB."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import duckdb
import psutil
import pytest

import kgedit
from kgedit.errors import StoreError
from kgedit.store import engine
from kgedit.store.engine import literal, open_cursor, open_engine, open_in_memory, plan_engine

MEGABYTE = 1024**2
GIGABYTE = 1024 * MEGABYTE
NEEDED = 224 * MEGABYTE


@pytest.mark.parametrize(
    ("cores", "available", "threads", "memory"),
    [
        (1, 8 * GIGABYTE, 1, 224),
        (2, 8 * GIGABYTE, 2, 224),
        (16, 64 * GIGABYTE, 16, 1792),
        (64, 512 * GIGABYTE, 64, 7168),
        (64, 4 * GIGABYTE, 18, 2016),  # half of the memory bounds the threads
        (64, GIGABYTE // 4, 2, 224),  # a step gets what it needs
    ],
)
def test_each_thread_has_half_of_what_a_step_needs_on_two_cores(
    cores: int, available: int, threads: int, memory: int
) -> None:
    assert plan_engine(NEEDED, cores, available) == (threads, memory * MEGABYTE)


def settings(folder: Path, memory: str = "224MB") -> tuple[int, str]:
    with open_engine(folder / "spill", memory=memory) as connection:
        ((threads, limit),) = connection.sql(
            "SELECT current_setting('threads'), current_setting('memory_limit')"
        ).fetchall()
        return int(threads), str(limit)


def test_a_connection_has_what_was_planned_or_what_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KGEDIT_STORE_MEMORY", raising=False)
    monkeypatch.delenv("KGEDIT_STORE_THREADS", raising=False)
    monkeypatch.setattr(engine, "usable_cores", lambda: 16)
    monkeypatch.setattr(engine, "available_memory", lambda: 64 * GIGABYTE)
    assert settings(tmp_path) == (16, "1.7 GiB")
    monkeypatch.setenv("KGEDIT_STORE_THREADS", "3")
    assert settings(tmp_path) == (3, "336.0 MiB")
    monkeypatch.setenv("KGEDIT_STORE_MEMORY", "1g")
    assert settings(tmp_path) == (3, "1.0 GiB")
    monkeypatch.setenv("KGEDIT_STORE_THREADS", "64")
    assert settings(tmp_path) == (9, "1.0 GiB")


@pytest.mark.parametrize("limit", [None, "224m"], ids=["memory as planned", "memory set"])
@pytest.mark.slow
def test_sixty_four_threads_finish_a_grouping_that_two_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None
) -> None:
    """With 224 MB for 64 threads, DuckDB ends in "could not allocate block"."""
    monkeypatch.setenv("KGEDIT_STORE_THREADS", "64")
    if limit is None:
        monkeypatch.delenv("KGEDIT_STORE_MEMORY", raising=False)
        monkeypatch.setattr(engine, "available_memory", lambda: GIGABYTE // 2)
    else:
        monkeypatch.setenv("KGEDIT_STORE_MEMORY", limit)
    with open_engine(tmp_path / "spill", memory="224MB") as connection:
        connection.execute(
            """
            CREATE TABLE fact AS SELECT 'Q' || i % 300000 AS subject, 'P' || i % 17 AS property,
                'Q' || i * 7919 % 1000003 AS object, 'Q' || i || '-' || md5(i::VARCHAR) AS statement_id
            FROM range(1000000) t(i)
            """
        )
        ((groups, facts),) = connection.execute(
            """
            SELECT count(*), sum(facts) FROM (
                SELECT count(*) AS facts, list_sort(list(statement_id)), list(DISTINCT object ORDER BY object)
                FROM fact GROUP BY subject, property ORDER BY ALL)
            """
        ).fetchall()
    assert (groups, facts) == (1_000_000, 1_000_000)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads of each database that is opened from now on."""
    threads: list[int] = []

    def new_database(count: int) -> duckdb.DuckDBPyConnection:
        threads.append(count)
        return open_new(count)

    open_new = engine._new_database
    monkeypatch.setattr(engine, "_new_database", new_database)
    monkeypatch.setattr(engine, "_idle_databases", cache(lambda _process: []))
    return threads


def test_a_step_takes_over_the_database_of_the_one_before_and_nothing_in_it(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_STORE_MEMORY", "2GB")
    for number in range(3):
        monkeypatch.setenv("KGEDIT_STORE_THREADS", str(number + 1))
        with open_engine(tmp_path / str(number)) as connection:
            assert connection.sql("SHOW ALL TABLES").fetchall() == []
            assert connection.sql("SELECT getvariable('parts')").fetchall() == [(None,)]
            connection.execute("CREATE TABLE fact AS SELECT 1 AS id; CREATE SCHEMA bucket; SET VARIABLE parts = 2")
            connection.execute("CREATE VIEW bucket.facts AS FROM fact; SET search_path = 'bucket,main'")
            assert connection.sql("SELECT id, current_setting('threads') FROM facts").fetchall() == [(1, number + 1)]
            with open_cursor(connection) as other:
                assert other.sql("FROM fact").fetchall() == [(1,)]
    assert opened == [1]


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path, opened: list[int]) -> None:
    path, moment = tmp_path / "rows.parquet", 1_700_000_000
    for number in (1, 2):
        with open_engine(tmp_path / "spill") as connection:
            connection.execute(f"COPY (SELECT {number} AS number) TO {literal(path)}")
            os.utime(path, (moment, moment))
            assert connection.sql(f"FROM {literal(path)}").fetchall() == [(number,)]
    assert len(opened) == 1


def test_memory_of_a_step_is_returned_at_its_end(tmp_path: Path, opened: list[int]) -> None:
    for _ in range(3):
        before = resident()
        with open_engine(tmp_path / "spill") as connection:
            connection.execute(
                "CREATE TABLE big AS SELECT range, hash(range) AS one, hash(range + 1) FROM range(6000000)"
            )
            assert resident() > before + 100 * MEGABYTE
        assert resident() < before + 50 * MEGABYTE
    assert len(opened) == 1


def resident() -> int:
    return psutil.Process().memory_info().rss


def test_steps_at_the_same_time_have_databases_of_their_own(tmp_path: Path, opened: list[int]) -> None:
    with open_engine(tmp_path / "1") as first, open_in_memory() as second:
        first.execute("CREATE TABLE fact (id VARCHAR)")
        assert second.sql("SHOW ALL TABLES").fetchall() == []
    assert len(opened) == 2


def test_a_database_is_given_up_after_an_error_and_after_it_has_spilled(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_STORE_MEMORY", "60MB")
    with pytest.raises(duckdb.CatalogException), open_engine(tmp_path / "spill") as connection:
        connection.execute("FROM nothing")
    with open_engine(tmp_path / "spill") as connection:
        connection.execute("CREATE TABLE big AS SELECT range, hash(range) AS one, hash(range + 1) FROM range(6000000)")
        assert list((tmp_path / "spill").glob("duckdb_temp_*"))
    assert not (tmp_path / "spill").exists()
    with open_engine(tmp_path / "spill"):
        pass
    assert len(opened) == 3


def test_one_module_opens_duckdb() -> None:
    """Elsewhere, neither threads nor memory would be planned, and a cursor would not see the tables."""
    opening = {
        path.name
        for path in Path(kgedit.__path__[0]).rglob("*.py")
        if re.search(r"duckdb\.connect\(|\.cursor\(\)", path.read_text("utf-8"))
    }
    assert opening == {"engine.py"}


@pytest.mark.parametrize(
    ("name", "text"), [("KGEDIT_STORE_THREADS", "none"), ("KGEDIT_STORE_THREADS", "0"), ("KGEDIT_STORE_MEMORY", "much")]
)
def test_a_variable_that_says_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(StoreError, match=f"{name} is '{text}'. Set it to a number"), open_engine(tmp_path / "spill"):
        pass
