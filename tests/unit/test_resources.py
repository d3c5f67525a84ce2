"""Where kgedit keeps things."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit import resources


@pytest.mark.slow
def test_the_cache_is_the_systems_unless_the_environment_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KGEDIT_CACHE", raising=False)
    assert resources.cache().is_absolute()
    assert resources.cache().name == "kgedit"
    assert not resources.cache().is_relative_to(tmp_path)
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path))
    assert resources.cache() == tmp_path


def test_an_empty_variable_names_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KGEDIT_HOME", "")
    assert resources.home() == tmp_path / "kgedit-data"
