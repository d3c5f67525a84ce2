"""The part of the store that a graph contains; chosen once and recorded in the graph.

It is stored on every Snapshot node, and beside the graph in ``$KGEDIT_HOME/graph.json``. The file is needed after an
interrupted rebuild, so that the same command leads to the same graph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgedit.checksums import decoding
from kgedit.errors import GraphError
from kgedit.files import replace_file
from kgedit.store.files import json_text
from kgedit.wikidata.ids import is_property


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of the store that goes into the graph.

    Attributes:
        evidence: Whether the graph contains the versions of statements (CLAIM edges) in addition to facts.
        items_only: Only facts whose object is an item; no literals, no properties as objects.
        properties: Only facts of these properties; empty means all.
        around_changes: Only facts about the subjects and objects of facts that began or ended between two snapshots.
            Such a graph is rebuilt at every load, because each load widens it.
        changed_pairs: Only facts of a subject and property of which a fact began or ended between two snapshots. Such a
            graph is rebuilt at every load as well.
    """

    evidence: bool = True
    items_only: bool = False
    properties: tuple[str, ...] = ()
    around_changes: bool = False
    changed_pairs: bool = False

    def __post_init__(self) -> None:
        wrong = [name for name in self.properties if not is_property(name)]
        if wrong:
            raise GraphError(f"{', '.join(map(repr, wrong))} is not a property. Give ids such as P6.")
        if self.around_changes and self.changed_pairs:
            raise GraphError(
                "A graph contains the neighbourhood of changes (--around-changes) or the changed pairs of subject and "
                "property (--changed-pairs), which are part of it. Give one of the two."
            )
        object.__setattr__(self, "properties", tuple(sorted(set(self.properties), key=lambda name: int(name[1:]))))

    @property
    def follows_changes(self) -> bool:
        """Whether a further snapshot widens the scope, so that the graph must be rebuilt."""
        return self.around_changes or self.changed_pairs

    def condition(self) -> str:
        """SQL condition for a row (`kind` of the object, `property`) to be within the scope.

        >>> Scope(items_only=True, properties=("P6",)).condition()
        "kind = 'item' AND property IN ('P6')"
        """
        parts = ["kind = 'item'"] if self.items_only else []
        if self.properties:
            listed = ", ".join(f"'{name}'" for name in self.properties)
            parts.append(f"property IN ({listed})")
        return " AND ".join(parts) or "true"

    def describe(self) -> str:
        """Describe the scope as text.

        >>> Scope(evidence=False).describe()
        'all facts, without evidence'
        """
        facts = "item-valued facts" if self.items_only else "all facts"
        of = f" of {', '.join(self.properties)}" if self.properties else ""
        near = " around what changed" if self.around_changes else ""
        near = " of changed subjects and properties" if self.changed_pairs else near
        return f"{facts}{of}{near}, {'with' if self.evidence else 'without'} evidence"


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
