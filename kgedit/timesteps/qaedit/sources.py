"""Readers of published question-answering datasets; the format is recognised by content.

Unusable rows are counted by reason. Only questions and answers are read: TriviaQA's search results, which are most of
its bytes, are skipped while parsing.
"""

from __future__ import annotations

import ast
import csv
import mmap
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from kgedit.checksums import sha256_of
from kgedit.errors import TimestepError
from kgedit.timesteps.edit_files.contract import NotRowsError, read_table
from kgedit.wikidata.ids import plain_line
from kgedit.wording.name_index import composed

QUESTIONS = pa.schema(
    [
        ("source", pa.string()),
        ("row", pa.int64()),  # index in the file, from 0
        ("question", pa.string()),
        ("answer", pa.string()),
        ("aliases", pa.list_(pa.string())),  # other accepted answers
        ("topic", pa.string()),  # name in the source; null without a topic
    ]
)
"""One row per usable question."""

_QUESTION_FIELDS = ("question", "query", "problem", "prompt")
_ANSWER_FIELDS = ("answer", "answers", "target", "target_new")
_BLOCK = 1 << 20
"""Bytes at the beginning of a file by which its format is recognized."""

_SHOWN = 80
"""Characters of an unreadable line that the message quotes: about a line of a terminal."""

FORMS = """\
  NQ-open: JSON Lines, each with "question" and a list "answer"
  TriviaQA: a JSON object whose "Data" lists objects with "Question" and "Answer"
  SimpleQA: CSV with the columns problem and answer (metadata is read for the topic)
  locality questions: JSON list or JSON Lines, each with "loc" and "loc_ans" (ZsRE as EasyEdit ships it)
  any JSON list, JSON Lines or CSV whose rows have question (or query, problem, prompt)
    and answer (or answers, target, target_new): a text, a list of texts, or an object with value and aliases"""
"""Supported formats, for messages and help."""


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """A source file that was read.

    Attributes:
        path: The file.
        sha256: Hash of its bytes.
        form: Name of its format.
        name: Name with which its questions are marked.
        rows: Number of rows in the file.
        questions: Table with the schema QUESTIONS, in file order.
        left_out: Reason -> number of unusable rows.
    """

    path: Path
    sha256: str
    form: str
    name: str
    rows: int
    questions: pa.Table
    left_out: Mapping[str, int]

    def provenance(self) -> dict[str, Any]:
        """JSON record of the source for a provenance, without its folder."""
        return {
            "file": self.path.name,
            "sha256": self.sha256,
            "form": self.form,
            "name": self.name,
            "rows": self.rows,
            "usable": self.questions.num_rows,
            "left_out": dict(self.left_out),
        }


@dataclass(frozen=True, slots=True)
class _Found:
    """A row of the file before validation."""

    question: Any
    answers: Any
    topic: str | None = None


def read_questions(path: Path, *, limit: int | None = None) -> QuestionFile:
    """Read a question-answering dataset.

    Args:
        limit: Maximum number of rows to read; None means all.

    Raises:
        TimestepError: if the file cannot be read, or has none of the formats in FORMS.
    """
    try:
        form, name, rows = _open(path)
        table, count, left_out = _checked(name, rows, limit)
        digest = sha256_of(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TimestepError(f"The questions {path} cannot be read: {reason}. Check the path.") from error
    return QuestionFile(path, digest, form, name, count, table, left_out)


def plain_question(text: str) -> str:
    """Normalize a question: one line, composed (NFC), with a question mark, without the quotation marks of a CSV field.

    >>> plain_question('"Who sang ""Help""?"')
    'Who sang "Help"?'
    >>> plain_question("who wrote the sea wolf")
    'who wrote the sea wolf?'
    """
    line = plain_line(composed(text))
    if len(line) > 2 and line[0] == line[-1] == '"' and '""' in line:
        line = line[1:-1].replace('""', '"').strip()
    return line if not line or line[-1] in ".?!\"'”’" else f"{line}?"


def _checked(name: str, rows: Iterable[_Found | None], limit: int | None) -> tuple[pa.Table, int, dict[str, int]]:
    columns: dict[str, list[Any]] = {field: [] for field in QUESTIONS.names}
    left_out: Counter[str] = Counter()
    count = 0
    for number, row in enumerate(rows):
        if limit is not None and number >= limit:
            break
        count += 1
        if row is None:
            left_out["not an object"] += 1
            continue
        question = plain_question(row.question) if isinstance(row.question, str) else ""
        answers = _answers(row.answers)
        if not question or not answers:
            left_out["no answer" if question else "no question"] += 1
            continue
        values = (name, number, question, answers[0], answers[1:], row.topic)
        for field, value in zip(QUESTIONS.names, values, strict=True):
            columns[field].append(value)
    return pa.table(columns, schema=QUESTIONS), count, dict(sorted(left_out.items()))


def _answers(value: Any) -> list[str]:
    """Accepted answers of a row, without duplicates, the first one first."""
    if isinstance(value, Mapping):
        names = {str(name).lower(): found for name, found in value.items()}
        aliases = names.get("aliases") or ()
        value = [names.get("value"), *([aliases] if isinstance(aliases, str) else aliases)]
    texts = value if isinstance(value, list) else [value]
    lines = (plain_line(composed(str(text))) for text in texts if isinstance(text, str | int | float))
    return list(dict.fromkeys(line for line in lines if line))


def _open(path: Path) -> tuple[str, str, Iterator[_Found | None]]:
    """Format, name and rows of a file."""
    with path.open("rb") as file:
        head = file.read(_BLOCK).removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"{":
        first = _object(head.partition(b"\n")[0])
        if first is None or "Data" in first:
            return "TriviaQA", "TQA", _trivia_rows(path)
        return _json_lines(path, first)
    if head[:1] == b"[":
        rows = _json_list(path)
        first = next((row for row in rows if isinstance(row, dict)), {})
        form, name, read = _form_of(path, first)
        return form, name, (read(row) if isinstance(row, dict) else None for row in rows)
    return _csv_rows(path, head)


def _json_lines(path: Path, first: Mapping[str, Any]) -> tuple[str, str, Iterator[_Found | None]]:
    form, name, read = _form_of(path, first)

    def rows() -> Iterator[_Found | None]:
        with path.open("rb") as file:
            for line in file:
                if text := line.removeprefix(b"\xef\xbb\xbf").strip():
                    row = _object(text)
                    yield read(row) if row is not None else None

    return form, name, rows()


def _json_list(path: Path) -> list[Any]:
    try:
        return msgspec.json.decode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), type=list[Any])
    except msgspec.DecodeError as error:
        raise _unknown(path, f"it begins as a JSON list does, and {error}") from error


def _form_of(path: Path, first: Mapping[str, Any]) -> tuple[str, str, Callable[[Mapping[str, Any]], _Found]]:
    """Format, name and reader for rows like the first one."""
    if "loc" in first and "loc_ans" in first:
        return "locality questions", path.stem, _locality_row
    question = next((field for field in _QUESTION_FIELDS if field in first), None)
    answer = next((field for field in _ANSWER_FIELDS if field in first), None)
    if question is None or answer is None:
        raise _unknown(path, f"its first object has {', '.join(list(first)[:12]) or 'no fields'}")
    is_open = set(first) == {"question", "answer"} and isinstance(first["answer"], list)

    def read(row: Mapping[str, Any]) -> _Found:
        return _Found(row.get(question), row.get(answer))

    return ("NQ-open", "NQ", read) if is_open else ("rows", path.stem, read)


def _locality_row(row: Mapping[str, Any]) -> _Found:
    question = row.get("loc")
    # The file of ZsRE marks them as questions of Natural Questions.
    return _Found(question.removeprefix("nq question: ") if isinstance(question, str) else None, row.get("loc_ans"))


class _TriviaRow(msgspec.Struct):
    Question: Any = None
    Answer: Any = None


class _TriviaFile(msgspec.Struct):
    Data: list[_TriviaRow]


def _trivia_rows(path: Path) -> Iterator[_Found | None]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        view = memoryview(content)
        try:
            decoded = msgspec.json.decode(view, type=_TriviaFile)
        except msgspec.DecodeError as error:
            raise _unknown(path, f"it begins as a JSON object does, and {error}") from error
        finally:
            view.release()
    for row in decoded.Data:
        yield _Found(row.Question, row.Answer)


def _csv_rows(path: Path, head: bytes) -> tuple[str, str, Iterator[_Found | None]]:
    csv.field_size_limit(sys.maxsize)
    first = re.split(r"[\r\n]", head.decode("utf-8", errors="replace"), maxsplit=1)[0]
    columns = next(csv.reader([first]), [])
    question = next((field for field in _QUESTION_FIELDS if field in columns), None)
    answer = next((field for field in _ANSWER_FIELDS if field in columns), None)
    if question is None or answer is None:
        raise _unknown(path, f"it begins {first[:_SHOWN]!r}")
    is_simple = question == "problem" and answer == "answer"

    def rows() -> Iterator[_Found | None]:
        try:
            table = read_table(path.read_text(encoding="utf-8-sig"))
        except NotRowsError as error:
            raise TimestepError(f"The questions {path} cannot be read: {error}.") from error
        for row in table:
            yield _Found(row.get(question), row.get(answer), _topic(row.get("metadata")))

    return ("SimpleQA", "SQA", rows()) if is_simple else ("rows", path.stem, rows())


def _topic(metadata: str | None) -> str | None:
    """Topic in SimpleQA's metadata, a dictionary in Python's notation."""
    try:
        found = ast.literal_eval(metadata or "")
    except (ValueError, SyntaxError):
        return None
    topic = found.get("topic") if isinstance(found, dict) else None
    return topic if isinstance(topic, str) and topic else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _unknown(path: Path, found: str) -> TimestepError:
    return TimestepError(f"{path} is not a set of questions that kgedit reads: {found}.\nIt reads:\n{FORMS}")
