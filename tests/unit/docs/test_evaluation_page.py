"""docs/evaluation.md and docs/reference/metrics.md name every preset, metric, context and truncation."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kgedit.cli import main
from kgedit.llm.contexts import CHAT, context_names
from kgedit.llm.presets import MEANINGS, PRESETS, STOPS
from kgedit.metrics import METRICS

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("evaluation.md", "reference/metrics.md"))


def _row(name: str) -> list[str]:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    return [cell.strip() for cell in line.strip("| ").split("|")]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_its_row(name: str) -> None:
    preset, row = PRESETS[name], _row(name)
    generation = preset.generation.replace("_", " ")
    assert row[1:3] + row[4:5] == [f"`{preset.context}`", generation, f"`{preset.metric}`"]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_its_row(name: str) -> None:
    assert _row(name)[-1] == METRICS[name].generation.replace("_", " ")


def test_contexts_and_truncations_are_named() -> None:
    assert [name for name in (*context_names(), CHAT) if f"`{name}`" not in PAGE] == []
    assert [name for name in STOPS if name not in PAGE] == []


def test_the_help_of_run_edit_describes_every_preset() -> None:
    shown = CliRunner().invoke(main, ["run-edit", "--help"]).output
    assert [name for name in PRESETS if name not in shown or MEANINGS[name] not in shown] == []
