"""`kgedit methods`, `models` and `presets`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from kgedit.cli import main
from kgedit.editing import METHODS
from kgedit.llm.loading import BUILT_IN
from kgedit.llm.presets import PRESETS


def rows(command: str) -> list[dict[str, Any]]:
    ran = CliRunner().invoke(main, [command, "--format", "json"])
    assert ran.exit_code == 0, ran.output
    found: list[dict[str, Any]] = json.loads(ran.output)
    return found


@pytest.mark.parametrize(
    ("command", "key", "names"),
    [("methods", "method", METHODS), ("models", "model", BUILT_IN), ("presets", "name", PRESETS)],
)
def test_every_name_is_listed_with_what_it_is(command: str, key: str, names: Any) -> None:
    found = rows(command)
    assert [row[key] for row in found] == list(names)
    assert all(row["about"] for row in found)


def test_a_methods_row_says_what_it_changes_and_where_it_comes_from() -> None:
    (rome,) = [row for row in rows("methods") if row["method"] == "rome"]
    assert rome["changes"] == "weights of the model"
    assert "2202.05262" in rome["source"]
