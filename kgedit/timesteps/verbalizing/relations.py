"""Texts about a relation: its description for the model, and the words by which a question expresses it.

The words are those of the templates (kgedit.timesteps.relation_words) and of its label, aliases and description.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kgedit.store.engine import literal, select
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.relation_words import expressing_stems, stems, wordings
from kgedit.timesteps.wording import choose_templates


@dataclass(frozen=True, slots=True)
class Relation:
    """Texts about a relation.

    Attributes:
        label: Name of the relation.
        description: Meaning, in a sentence or less.
        stems: Stems that express it; empty if all of its words are function words.
    """

    label: str
    description: str
    stems: frozenset[str]


def read_relations(facts: pa.Table, snapshot: Snapshot | None, *, catalogue: Path | None = None) -> dict[str, Relation]:
    """Read the relations of some facts, by PID.

    Args:
        facts: Columns property and property_label.
        snapshot: Snapshot whose descriptions and aliases are read. If it is None, or lacks the property's entity, the
            template's noun phrase is the description.
        catalogue: Catalogue of templates; None means the shipped one.
    """
    templates: dict[str, list[dict[str, object]]] = {}
    for row in choose_templates(facts, catalogue=catalogue).to_pylist():
        templates.setdefault(row["property"], []).append(row)
    labels = dict(zip(facts["property"].to_pylist(), facts["property_label"].to_pylist(), strict=True))
    entities = _entities(snapshot, list(labels))
    found = {}
    for name, label in sorted(labels.items()):
        description, aliases = entities.get(name, ("", ()))
        rows = templates[name]
        said = [text for row in rows for text in wordings(row)]
        phrase = str(rows[0]["phrase"]).replace("{subject}", "the subject")
        found[name] = Relation(
            label, description or phrase, stems([label, description, *aliases]) | expressing_stems(said)
        )
    return found


def _entities(snapshot: Snapshot | None, properties: list[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    if snapshot is None:
        return {}
    rows = select(
        f"""
        SELECT id, coalesce(description, '') AS description, coalesce(aliases, []) AS aliases
        FROM read_parquet({literal(snapshot.entities)}) JOIN wanted USING (id) ORDER BY id
        """,  # noqa: S608 - a path of ours
        wanted=pa.table({"id": properties}),
    ).to_pylist()
    return {row["id"]: (row["description"], tuple(row["aliases"])) for row in rows}
