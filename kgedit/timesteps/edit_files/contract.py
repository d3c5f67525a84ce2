"""Contract of edit file formats, the formats by name, and the parts that all of them share.

Those are a file's objects (JSON list, JSON Lines, CSV or Parquet), texts of their fields, and facts whose ids the file
does not give. Another package adds a format through the entry-point group kgedit.edit_formats.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.records.cases import Axis, Case, Fact, KnownFact, Probe
from kgedit.registry import Registry

Row = Mapping[str, Any]
"""One object of a file, parsed from JSON or Parquet."""


ARCHIVE = "Archive"
"""Scenario of a fact that ended without a successor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDetails:
    """Details of a case beyond the edit and its probes: for audits, descriptions and known facts.

    Attributes:
        scenario: Scenario of WikiFactDiff: ReplaceObject, AddObject, AddRelation, AddEntity, Other.
        kind: Kind of change, such as "update".
        popularity: Popularity of the subject.
        start_time: Start of the fact, at its precision ("2021-12").
        point_in_time: Time at which the fact was observed.
        other_objects: Other values of the same subject and relation in the file: ids, or labels of literals.
        known_facts: Facts that held before according to the file, besides the edit's old answer.
    """

    scenario: str | None = None
    kind: str | None = None
    popularity: float | None = None
    start_time: str | None = None
    point_in_time: str | None = None
    other_objects: tuple[str, ...] = ()
    known_facts: tuple[KnownFact, ...] = ()


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Position of a row, and counts of parts of the file that are left out.

    Attributes:
        file: Name of the file's edits.
        number: Index of the row, from 0.
        left_out: Reason -> count.
    """

    file: str
    number: int
    left_out: Counter[str]


ReadCase = tuple[Case, CaseDetails]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFormat:
    """A format in which edits are published.

    Attributes:
        name: Name in the registry.
        needs: Groups of top-level fields: a file has this format if its first object has a field of each group, and
            each field of `types` has its type.
        inside: Dotted paths that such an object also has; lists are transparent.
        without: Dotted paths that it does not have, because another format has them.
        types: Field -> its type in this format, if another format has a field of the same name.
        texts: Top-level fields that are a text or a list of texts.
        used: Fields that become part of a case, as dotted paths; lists are transparent, `*` matches any name.
        unusable: Known fields that have no equivalent in a case -> reason.
        read_row: Reads the cases of one row, in a fixed order, and counts unusable parts in `left_out`.
        declares_tag: Whether the file states if an edit is new or an update.
        one_value: Whether a subject is meant to have one value of the relation.
        complete_rows: Function of the path of the file and its rows that adds data from a second file; None if there is
            none.
    """

    name: str
    needs: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...]
    used: tuple[str, ...]
    unusable: Mapping[str, str]
    read_row: Callable[[Row, RowPlace], Iterator[ReadCase]]
    declares_tag: bool = False
    one_value: bool = True
    complete_rows: Callable[[Path, Sequence[Row]], Sequence[Row]] | None = None
    types: Mapping[str, type] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def recognises(self, row: object) -> bool:
        """Whether a file whose first object is `row` has this format."""
        return (
            isinstance(row, Mapping)
            and all(any(name in row for name in group) for group in self.needs)
            and all(isinstance(row.get(name), kind) for name, kind in self.types.items())
            and all(_is_there(row, path.split(".")) for path in self.inside)
            and not any(_is_there(row, path.split(".")) for path in self.without)
        )

    def described_needs(self) -> str:
        """The fields by which the format is recognised, as text."""
        return ", ".join([*(" or ".join(group) for group in self.needs), *self.inside])


def _is_there(value: object, path: Sequence[str]) -> bool:
    """Whether a path leads to a value; lists are transparent."""
    if isinstance(value, list):
        return any(_is_there(one, path) for one in value)
    if not path:
        return True
    return isinstance(value, Mapping) and path[0] in value and _is_there(value[path[0]], path[1:])


EDIT_FORMATS: Registry[EditFormat] = Registry(
    "form of edit files",
    {
        "akew": "kgedit.timesteps.edit_files.long_texts:AKEW",
        "counterfact": "kgedit.timesteps.edit_files.counterfact:COUNTERFACT",
        "easyedit": "kgedit.timesteps.edit_files.easyedit:EASYEDIT",
        "halluedit": "kgedit.timesteps.edit_files.hallu_edit:HALLUEDIT",
        "mquake": "kgedit.timesteps.edit_files.mquake:MQUAKE",
        "unke": "kgedit.timesteps.edit_files.long_texts:UNKE",
        "wikibigedit": "kgedit.timesteps.edit_files.wikibigedit:WIKIBIGEDIT",
        "wikifactdiff": "kgedit.timesteps.edit_files.wikifactdiff:WIKIFACTDIFF",
        "zsre": "kgedit.timesteps.edit_files.zsre:ZSRE",
    },
    group="kgedit.edit_formats",
)
"""An object matches at most one of them."""


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


def questions_with_answers(
    place: RowPlace, kind: str, questions: Any, answers: Any
) -> list[tuple[str, tuple[str, ...]]]:
    """Questions of one field, each with the answers that another field accepts; the others are counted as left out.

    Several questions have their answers at the same positions of a list, or share one text. A single question accepts
    every text.

    Args:
        place: Position of the row.
        kind: Kind of question, for the reason why one is left out.
        questions: Value of the first field.
        answers: Value of the second field.
    """
    asked, accepted = texts_of(questions), texts_of(answers)
    if not accepted:
        if asked:
            place.left_out[f"{kind} questions without an answer"] += len(asked)
        return []
    listed = isinstance(questions, list) and isinstance(answers, list)
    if listed and len(questions) == len(answers) > 1:
        pairs = zip(questions, answers, strict=True)
        return [found for pair in pairs for found in questions_with_answers(place, kind, *pair)]
    if listed and len(asked) > 1:
        place.left_out[f"{kind} questions whose list has another length than that of the answers"] += len(asked)
        return []
    return [(question, accepted) for question in asked]


SLOT = "{}"
"""Place of the subject in a prompt, as in CounterFact."""


def filled(
    place: RowPlace, kind: str, questions: Iterable[tuple[str, tuple[str, ...]]], subject: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield questions and their answers with the subject in place of `{}`. Without a subject, those are left out.

    Args:
        place: Position of the row.
        kind: Kind of question, for the reason why one is left out.
        questions: Questions with their answers.
        subject: The subject that the questions are about; "" if unknown.
    """
    for question, answers in questions:
        if subject or SLOT not in question:
            yield question.replace(SLOT, subject), answers
        else:
            place.left_out[f"{kind} questions with {SLOT} and no subject to replace it"] += 1


def mapping_at(row: Row, name: str) -> Row:
    """The field's object, or {} if it is missing or not an object."""
    found = row.get(name)
    return found if isinstance(found, Mapping) else {}


def mappings_at(row: Row, name: str) -> list[Row]:
    """Objects in a field's list; other entries are left out."""
    found = row.get(name)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def triples_at(row: Row, name: str) -> list[tuple[str, str, str]]:
    """Ids of facts in a field's list: subject, relation, object; other entries are left out."""
    found = row.get(name)
    listed = [ids for ids in found if isinstance(ids, list) and len(ids) == 3] if isinstance(found, list) else []
    return [(str(subject), str(relation), str(thing)) for subject, relation, thing in listed]


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


_MADE_OF_ROW = re.compile(r"(?:(?:new_)?hop-)?(?:subject|relation|object)-\d[\d-]*|old-.+")


def is_made_of_row(identifier: str) -> bool:
    """Whether an edit's id is derived from its row, because the file gives none; other files have the same ones.

    >>> is_made_of_row("subject-0"), is_made_of_row("old-3-1"), is_made_of_row("Q42")
    (True, True, False)
    """
    return _MADE_OF_ROW.fullmatch(identifier) is not None


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
_COLUMNS = re.compile(r'(?![\[{])("[^"\n]*"|[^",\n]*)(,("[^"\n]*"|[^",\n]+))+\r?\n')
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
        whole = json.loads(text, object_pairs_hook=_object)
    except NotRowsError:
        raise
    except ValueError as error:
        if _COLUMNS.match(text):
            return read_table(text)
        lines = text.split("\n")  # not splitlines(), which also breaks at U+2028 within a text
        if len(lines) < 2 or not text.startswith("{"):
            raise NotRowsError(f"it is not valid JSON: {error}, beginning {text[:_SHOWN]!r}") from error
        return [_line(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if isinstance(whole, list):
        return whole
    if isinstance(whole, dict) and "\n" not in text:
        return [whole]  # JSON Lines of one line
    fields = f" with {', '.join(list(whole)[:8])}" if isinstance(whole, dict) else ""
    raise NotRowsError(f"it is one JSON {type(whole).__name__}{fields}, not a list of objects")


def read_table(text: str) -> list[Any]:
    """Rows of a CSV file, with None for empty cells and for those missing at the end of a row."""
    reader = csv.reader(io.StringIO(text), strict=True)
    rows, line = [], 1
    try:
        header = next(reader)
        if twice := [name for name, times in Counter(filter(None, header)).items() if times > 1]:
            raise NotRowsError(f"its header has {', '.join(twice)} more than once")
        line += 1
        for cells in reader:
            if any(cells[len(header) :]):
                found = f"line {line} has {len(cells)} cells, its header {len(header)}"
                raise NotRowsError(f"{found}; a cell with a comma needs quotation marks")
            if cells:
                rows.append({name: cell or None for name, cell in zip_longest(header, cells[: len(header)]) if name})
            line = reader.line_num + 1
    except csv.Error as error:
        found = f"the row of line {line} cannot be read ({error})"
        raise NotRowsError(
            f"it begins as CSV does, and {found}; check its quotation marks, which are doubled inside a quoted cell"
        ) from error
    return rows


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose keys have one value each."""
    found = dict(pairs)
    if len(found) < len(pairs) and (twice := dict.fromkeys(name for name, value in pairs if value != found[name])):
        shown = json.dumps(found, ensure_ascii=False)[:_SHOWN]
        raise NotRowsError(f"an object has {', '.join(twice)} more than once ({shown!r})")
    return found


def _line(number: int, line: str) -> Any:
    try:
        return json.loads(line, object_pairs_hook=_object)
    except NotRowsError as error:
        raise NotRowsError(f"line {number}: {error}") from error
    except ValueError as error:
        raise NotRowsError(f"line {number} is not valid JSON: {error}") from error
