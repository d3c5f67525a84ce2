"""docs/reference/snapshot.md lists every column of the store."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from kgedit.store.digests import ENTITIES_KEPT
from kgedit.store.schemas import CLAIMS_KEPT, FACTS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "snapshot.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "schema"), [("facts", FACTS), ("claims", CLAIMS_KEPT), ("entities", ENTITIES_KEPT)])
def test_every_column_is_described(name: str, schema: pa.Schema) -> None:
    section = PAGE.partition(f"## `{name}.parquet`")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    described = [column for cells in rows for column in re.findall(r"`(\w+)`", cells)]
    assert sorted(described) == sorted(schema.names)
