"""Parts common to all formats: a file's objects, texts of their fields, and facts whose ids the file does not give.

A file is a JSON list, JSON Lines, CSV, or Parquet.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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


def essay_probes(row: Row, target: str, fact: Fact) -> tuple[Probe, ...]:
    """LEME's request for an essay about the subject, which the edit's target should occur in."""
    essay = text_at(mapping_at(mapping_at(row, "dependancies"), "subject_entity"), "coupled_prompt")
    return probes_of("consequence", (essay,) if essay else (), (target,), fact)


ESSAY = "dependancies.subject_entity.coupled_prompt"
"""Field that `essay_probes` reads; the spelling is that of the files."""

NO_ESSAYS: Mapping[str, str] = {
    "dependancies.coupled_entities*": "essays about related entities are scored by annotators, without an answer",
    "dependancies.*": "what the essays are compared with by annotators",
}
"""Other fields of LEME, and why they are not used."""


def without_blank(prompt: str) -> str:
    """Remove the blank at the end of a cloze.

    >>> without_blank("The capital of France is ____.")
    'The capital of France is'
    """
    return re.sub(r"\s*_{2,}[\s.]*$", "", prompt).strip()


_PARQUET = b"PAR1"
_COLUMNS = re.compile(r"\w*(,\w+)+\r?\n")
"""First line of a CSV file: names of columns, of which the first may be empty."""
_SHOWN = 80
"""Characters of an unreadable file that the message quotes: about a line of a terminal."""


class NotRowsError(ValueError):
    """The bytes are not a list of objects; the message describes their content."""


def read_rows(content: bytes) -> list[Any]:
    """Read the list in a file; the format is recognised by content, not by name.

    Raises:
        NotRowsError: if it is not a list, or cannot be read.
    """
    if content.startswith(_PARQUET):
        try:
            rows: list[Any] = pq.read_table(io.BytesIO(content)).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise NotRowsError(f"it begins as Parquet does, and {error}") from error
        return rows
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotRowsError(f"it is neither Parquet nor text in UTF-8 ({error.reason})") from error
    return _read_text(text.strip())


def _read_text(text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except ValueError as error:
        if _COLUMNS.match(text):
            return _read_table(text)
        lines = text.splitlines()
        if len(lines) < 2 or not text.startswith("{"):
            raise NotRowsError(f"it is not valid JSON: {error}, beginning {text[:_SHOWN]!r}") from error
        return [_line(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if isinstance(whole, list):
        return whole
    if isinstance(whole, dict) and "\n" not in text:
        return [whole]  # JSON Lines of one line
    fields = f" with {', '.join(list(whole)[:8])}" if isinstance(whole, dict) else ""
    raise NotRowsError(f"it is one JSON {type(whole).__name__}{fields}, not a list of objects")


def _read_table(text: str) -> list[Any]:
    """Rows of a CSV file, without empty cells."""
    return [{name: cell for name, cell in row.items() if name and cell} for row in csv.DictReader(io.StringIO(text))]


def _line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise NotRowsError(f"line {number} is not valid JSON: {error}") from error
