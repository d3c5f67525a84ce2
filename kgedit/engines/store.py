"""The questions in SQL over the two snapshots' Parquet files: kgedit/engines/sql."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from kgedit.engines.protocol import CHANGED_EDGES, TWO_HOPS
from kgedit.store.window import Window
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

_SQL = Path(__file__).parent / "sql"


def read_sql(name: str) -> str:
    """A query file of this engine, with its header as comments."""
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8")


class StoreEngine:
    """Asks the snapshots themselves: no graph, no server."""

    name: ClassVar[str] = "store"

    def check(self, window: Window) -> None:
        """Nothing to check: an open window holds both snapshots."""

    def changed_edges(self, window: Window) -> pa.Table:
        return window.select(read_sql("changed_edges")).cast(CHANGED_EDGES)

    def two_hops(self, window: Window) -> pa.Table:
        return window.select(read_sql("two_hop_changes"), {"stop": list(TWO_HOP_STOP_LIST)}).cast(TWO_HOPS)
