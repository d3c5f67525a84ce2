"""Families of relations that answer the same kind of question, such as who heads something."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import pyarrow as pa
import yaml

from kgedit.store.window import Window

_FILE = Path(__file__).parents[1] / "data" / "relation_families.yaml"


@cache
def read_families() -> dict[str, list[str]]:
    """The shipped families: name -> properties."""
    families: dict[str, list[str]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return families


def families_version() -> str:
    """Version of the shipped families: the first 16 hex digits of their file's hash."""
    return hashlib.sha256(_FILE.read_bytes()).hexdigest()[:16]


def related_relations(window: Window) -> pa.Table:
    """Find pairs of relations of one family: a shipped one, or a subproperty tree (P1647) of the older snapshot.

    Only direct subproperties count: two relations with the same parent, and a parent with its child.

    Returns:
        Columns property and other, in both directions, ordered.
    """
    rows = [{"property": name, "family": family} for family, names in read_families().items() for name in names]
    return window.select(
        """
        WITH parent AS (SELECT subject AS property, object AS family FROM old_facts WHERE property = 'P1647'),
        belongs AS (
            SELECT property, family FROM shipped
            UNION SELECT property, family FROM parent
            UNION SELECT family, family FROM parent
        )
        SELECT DISTINCT a.property, b.property AS other FROM belongs a JOIN belongs b USING (family)
        WHERE a.property <> b.property ORDER BY ALL
        """,
        shipped=pa.Table.from_pylist(rows, schema=pa.schema([("property", pa.string()), ("family", pa.string())])),
    )
