"""WikiFactDiff's published JSON Lines format, followed by additional fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from kgedit.errors import DamagedFileError
from kgedit.records.cases import Case
from kgedit.store.files import write_text
from kgedit.timesteps.tables import read_parts
from kgedit.timesteps.timestep import EXPORT_AGAIN, Timestep
from kgedit.timesteps.wikifactdiff import OWN_TABLES, has_own_tables
from kgedit.timesteps.wikifactdiff.values import BLANK

Row = dict[str, Any]


def export(timestep: Timestep) -> Path:
    """Write wikifactdiff.jsonl into the timestep's folder: one update per line, most popular subject first.

    For timesteps of other profiles, each line is a case. Their literals, descriptions, popularity and functional
    relations are unknown, so those fields are null.
    """
    records = _updates(timestep) if has_own_tables(timestep) else (_case(case) for case in timestep.cases())
    mark = {"projected": True} if timestep.is_projected else {}
    path = timestep.folder / "wikifactdiff.jsonl"
    write_text(path, (json.dumps(record | mark, ensure_ascii=False) + "\n" for record in records))
    return path


def _updates(timestep: Timestep) -> Iterator[Row]:
    objects, neighbours = (_Ordered(timestep, name) for name in ("objects", "neighbours"))
    for update in _rows(timestep, "updates"):
        near = neighbours.of(update)
        yield {
            "subject": _term(update, "subject"),
            "relation": _term(update, "property"),
            **_prompts(update["cloze"], update["clozes"] or ()),  # missing in timesteps of earlier versions
            "subject_is_ph_new": update["subject_is_new"],
            "relation_is_temp_func": update["temporal_functional"],
            "is_replace": update["scenario"] == "ReplaceObject",
            "subject_popularity": update["popularity"],
            "objects": [_object(row) | {"decision": row["decision"]} for row in objects.of(update)],
            "neighborhood": [_neighbour(row) for row in near if row["basis"] == "nearest"],
            "scenario": update["scenario"],
            "in_replacement_set": update["in_replacement_set"],
            "random_neighborhood": [_neighbour(row) for row in near if row["basis"] == "random"],
        }
    for rows in (objects, neighbours):
        rows.check_read()


class _Ordered:
    """Rows of a table about each update. They are in the order of the updates, so that none of them is held."""

    def __init__(self, timestep: Timestep, name: str) -> None:
        self._path = timestep.folder / f"{name}.parquet"
        self._groups = groupby(_rows(timestep, name), key=_GROUP)
        self._next = next(self._groups, None)

    def of(self, update: Row) -> list[Row]:
        """Rows about the next update."""
        if self._next is None or self._next[0] != _GROUP(update):
            return []
        rows = list(self._next[1])
        self._next = next(self._groups, None)
        return rows

    def check_read(self) -> None:
        """Check that every row has been returned.

        Raises:
            DamagedFileError: if rows are left, because one is about no update or precedes its turn.
        """
        if self._next is not None:
            subject, relation = self._next[0]
            reason = f"its rows about {subject} and {relation} are not in the order of updates.parquet"
            raise DamagedFileError(self._path, reason, EXPORT_AGAIN)


_GROUP = itemgetter("subject", "property")


def _rows(timestep: Timestep, name: str) -> Iterator[Row]:
    """Rows of a table; none if an earlier version did not write it."""
    path = timestep.folder / f"{name}.parquet"
    if path.is_file():
        yield from chain.from_iterable(read_parts(path, OWN_TABLES[name], fix=EXPORT_AGAIN))


def _case(case: Case) -> Row:
    asked = {probe.axis: probe for probe in case.probes}
    rephrase, locality = asked.get("rephrase"), asked.get("locality")
    old = [
        {"id": name, "label": label, "description": None, "decision": "obsolete"}
        for name, label in zip(case.old_objects, case.old_answers, strict=True)
    ]
    own = {"id": case.fact.object, "label": case.fact.object_label, "description": None}
    aliases = {"aliases": list(case.probes[0].answers[1:])}
    near = locality.facts[0] if locality else None
    return {
        "subject": {"id": case.fact.subject, "label": case.fact.subject_label, "description": None},
        "relation": {"id": case.fact.property, "label": case.fact.property_label, "description": None},
        **_prompts(case.cloze, case.clozes or (case.question, *([rephrase.question] if rephrase else []))),
        "subject_is_ph_new": None,
        "relation_is_temp_func": None,
        "is_replace": len(old) == 1,
        "subject_popularity": None,
        "objects": [own | aliases | {"decision": "new"}, *old],
        "neighborhood": [
            {
                "subject": {"id": near.subject, "label": near.subject_label, "description": None},
                "objects": [
                    {
                        "object": {"id": near.object, "label": near.object_label, "description": None}
                        | {"aliases": list(locality.answers[1:])},
                        "prompt": locality.question,
                    }
                ],
                "dist": None,
            }
            | ({"relation": near.property} if near.property != case.fact.property else {})
            | ({"changed": True} if locality.changed else {})
        ]
        if near and locality
        else [],
        **({"kind": case.kind} if case.kind else {}),
    }


def _prompts(cloze: str, others: Iterable[str]) -> Row:
    return {
        "update_prompt": _blank(cloze),
        "generalization_prompts": [_blank(text) for text in others if text != cloze],
    }


def _blank(text: str) -> str:
    return f"{text} {BLANK}"


def _term(row: Row, name: str) -> Row:
    return {"id": row[name], "label": row[f"{name}_label"], "description": row[f"{name}_description"]}


def _object(row: Row) -> Row:
    """An entity with its id; a literal has no id, and its aliases are its other spellings."""
    described = {"label": row["object_label"], "description": row["object_description"]}
    described |= {"aliases": list(row["object_aliases"] or ())}
    return described if row["object"].startswith("V") else {"id": row["object"]} | described


def _neighbour(row: Row) -> Row:
    drawn = {} if row["basis"] == "nearest" else {"relation": row["neighbour_property"]}
    return {
        "subject": _term(row, "neighbour"),
        **drawn,
        "objects": [{"object": _object(row), "prompt": _blank(row["cloze"])}],
        "dist": None if row["similarity"] is None else round(1 - row["similarity"], 6),
        "popularity": row["popularity"],
    }
