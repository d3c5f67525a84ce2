"""Helpers that all formats share: texts of fields, and facts whose ids a file does not give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kgedit.records.cases import Axis, Fact, Probe
from kgedit.timesteps.edit_files.contract import Row, RowPlace


def texts_of(value: Any) -> tuple[str, ...]:
    """All distinct texts in a value, stripped, in order; lists may be nested.

    >>> texts_of([["Berlin ", "DE-BE"], ["", None, "Berlin"]])
    ('Berlin', 'DE-BE')
    """
    if isinstance(value, str):
        return (value.strip(),) if value.strip() else ()
    if isinstance(value, list | tuple):
        return tuple(dict.fromkeys(text for item in value for text in texts_of(item)))
    return ()


def texts_at(row: Row, *names: str) -> tuple[str, ...]:
    """Texts of the first of several fields that has any."""
    return next((found for name in names if (found := texts_of(row.get(name)))), ())


def text_at(row: Row, *names: str) -> str:
    """First text of the first of several fields that has any; "" if none has."""
    return next(iter(texts_at(row, *names)), "")


def mapping_at(row: Row, name: str) -> Row:
    """The field's object, or {} if it is missing or not an object."""
    found = row.get(name)
    return found if isinstance(found, Mapping) else {}


def mappings_at(row: Row, name: str) -> list[Row]:
    """Objects in a field's list; other entries are left out."""
    found = row.get(name)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def malformed_at(row: Row, name: str) -> int:
    """Number of entries that `mappings_at` leaves out; 1 for a field that is not a list."""
    found = row.get(name)
    if isinstance(found, list):
        return len(found) - len(mappings_at(row, name))
    return 0 if found is None else 1


def lacks(place: RowPlace, fields: Mapping[str, object]) -> bool:
    """Whether a field that a case needs is empty; the first empty one is counted as the reason."""
    for name, value in fields.items():
        if not value:
            place.left_out[f"edits that lack {name}"] += 1
            return True
    return False


def edited_fact(
    number: int,
    subject: str,
    answer: str,
    *,
    subject_id: str = "",
    relation_id: str = "",
    relation: str = "",
    object_id: str = "",
) -> Fact:
    """Fact of an edit. If the file gives no id, a unique one is derived from the row's number."""
    return Fact(
        subject_id or f"subject-{number}",
        subject,
        relation_id or f"relation-{number}",
        relation,
        object_id or f"object-{number}",
        answer,
    )


def nearby_fact(place: RowPlace, index: int, question: str, answer: str, *, group: str = "") -> Fact:
    """Fact of a question without a subject in the file; the question itself is used as its name.

    Args:
        place: Position of the row.
        index: Index of the question in its row.
        question: The question.
        answer: Its answer.
        group: Name in the file for questions of this sort.
    """
    own = f"{place.number}-{index}"
    return Fact(f"near-{own}", question, f"near-relation-{own}", group, f"near-object-{own}", answer)


def case_id_of(row: Row, place: RowPlace, *, source: str = "edit") -> str:
    """Id with three parts, of which the middle one is the row's number; the file's id if it has three parts.

    Args:
        row: Row that may have case_id or id.
        place: Position of the row.
        source: First part of the id.
    """
    own = row.get("case_id", row.get("id"))
    if isinstance(own, str) and re.fullmatch(r"[^:\s]+:[^:\s]+:[^:\s]+", own):
        return own
    parts = (source, place.number, place.number if own is None else own)
    return ":".join(re.sub(r"[:\s]+", "-", str(part)) for part in parts)


def probes_of(axis: Axis, questions: tuple[str, ...], answers: tuple[str, ...], fact: Fact) -> tuple[Probe, ...]:
    """One probe per question about a fact."""
    return tuple(Probe(axis, question, answers, (fact,)) for question in questions)


def without_blank(prompt: str) -> str:
    """Remove the blank at the end of a cloze.

    >>> without_blank("The capital of France is ____.")
    'The capital of France is'
    """
    return re.sub(r"\s*_{2,}[\s.]*$", "", prompt).strip()
