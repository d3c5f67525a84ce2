"""docs/peers.md: its queries find what it says."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import kgedit
from kgedit.sample.generate import write_world

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "peers.md").read_text(encoding="utf-8")


def test_the_queries_find_the_numbers_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_world(tmp_path / "sample")
    for date in ("2021-01-04", "2023-02-27"):
        dump = f"sample/{date.replace('-', '')}.json.gz"
        kgedit.Home("kgedit-data").load_dump(dump, date, redirects="sample/redirects.tsv", graph=False)
    on_dumps, on_facts = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    connection = duckdb.connect()
    of_dumps = set(connection.sql(on_dumps).fetchall())
    of_facts = set(connection.sql(on_facts).fetchall())
    assert f"This finds {len(of_dumps)} in the [sample]" in PAGE
    assert f"This finds {len(of_facts)}." in PAGE
    assert of_facts < of_dumps
    assert len(of_dumps - of_facts) == 6, "the other six"
    assert ("Q145", "Q272201") in of_dumps - of_facts, "Liz Truss"
