"""Stores the graph's scope: on every Snapshot node, and beside the graph in ``$KGEDIT_HOME/graph.json``.

The file is needed after an interrupted rebuild, so that the same command leads to the same graph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgedit.checksums import decoding
from kgedit.files import replace_file
from kgedit.store.files import json_text
from kgedit.store.scope import Scope


def scope_properties(scope: Scope) -> dict[str, Any]:
    """A scope as properties of a node."""
    return asdict(scope) | {"properties": list(scope.properties), "scope": scope.describe()}


def scope_from(properties: Mapping[str, Any]) -> Scope:
    """Scope from the properties of a node or from the file."""
    return Scope(
        evidence=properties.get("evidence", True),
        items_only=properties.get("items_only", False),
        properties=tuple(properties.get("properties") or ()),
        around_changes=properties.get("around_changes", False),
        changed_pairs=properties.get("changed_pairs", False),
    )


def keep_scope(home: Path, scope: Scope) -> None:
    """Write the scope to the file beside the graph, if it differs from the one stored there."""
    if kept_scope(home) != scope:
        replace_file(home / "graph.json", json_text(scope_properties(scope)))


def kept_scope(home: Path) -> Scope | None:
    """Scope stored in the file, or None."""
    path = home / "graph.json"
    if not path.is_file():
        return None
    with decoding(path, fix="Remove it, and give the options of the graph's scope again: kgedit graph rebuild"):
        return scope_from(json.loads(path.read_bytes()))
