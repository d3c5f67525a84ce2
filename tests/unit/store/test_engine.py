"""Threads and memory of the store's DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

import kgedit
from kgedit.errors import StoreError
from kgedit.store import engine
from kgedit.store.engine import open_engine, plan_engine

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


def test_one_module_opens_duckdb() -> None:
    """Elsewhere, neither threads nor memory would be planned."""
    opening = {
        path.name for path in Path(kgedit.__path__[0]).rglob("*.py") if "duckdb.connect(" in path.read_text("utf-8")
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
