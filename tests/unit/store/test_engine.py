"""Threads and memory of the store's DuckDB."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

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


def settings(folder: Path, memory: str | None = "224MB") -> tuple[int, str]:
    with closing(open_engine(folder / "spill", memory=memory)) as connection:
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
    assert settings(tmp_path, memory=None)[0] == 16
    monkeypatch.setenv("KGEDIT_STORE_THREADS", "3")
    assert settings(tmp_path) == (3, "336.0 MiB")
    monkeypatch.setenv("KGEDIT_STORE_MEMORY", "1g")
    assert settings(tmp_path) == (3, "1.0 GiB")


@pytest.mark.parametrize(
    ("name", "text"), [("KGEDIT_STORE_THREADS", "none"), ("KGEDIT_STORE_THREADS", "0"), ("KGEDIT_STORE_MEMORY", "much")]
)
def test_a_variable_that_says_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(StoreError, match=f"{name} is '{text}'. Set it to a number"):
        open_engine(tmp_path / "spill")
