"""The measured table of WikiFactDiff's scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "measurements" / "2026-11-25-wikifactdiff-scenarios.md"


def documented(data: str) -> list[list[str]]:
    """Rows about the given data, split into cells."""
    rows = [line.strip("|").split("|") for line in _DOCUMENT.read_text(encoding="utf-8").splitlines()]
    return [[cell.strip() for cell in row] for row in rows if row[0].strip() == data]


def cells(manifest: dict[str, Any]) -> list[str]:
    """Expected cells of a timestep in such a row, after its data and dates."""
    numbers = [manifest["funnel"]["changed"], *manifest["scenarios"].values(), sum(manifest["cases"].values())]
    return [str(number) for number in numbers]
