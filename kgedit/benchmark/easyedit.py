"""EasyEdit's JSON edit files (CounterFact, QAEdit) read as cases.

A file is a list of objects with prompt, target_new (or target), and where it has them ground_truth, subject,
rephrase_prompt (or rephrase), locality_prompt with locality_ground_truth, or a list `locality` of {loc, loc_ans}.
Relations are not named in these files: every edit counts as a cluster of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kgedit.benchmark.timestep import Timestep
from kgedit.errors import BenchmarkError
from kgedit.records.cases import Case, Fact, KnownFact, Probe

_TEXTS = {
    "prompt": ("prompt",),
    "target": ("target_new", "target"),
    "subject": ("subject",),
    "old": ("ground_truth",),
    "rephrase": ("rephrase_prompt", "rephrase"),
    "near": ("locality_prompt",),
    "near_answer": ("locality_ground_truth",),
}
"""What is read -> the names that files give it."""

_NEEDED = ("prompt", "target")


class Edits(Protocol):
    """The edits of one step of a run: an exported timestep, or a file of edits."""

    @property
    def name(self) -> str:
        """Unique within a run."""

    @property
    def sha256(self) -> str:
        """Hash of its content."""

    def cases(self) -> Iterator[Case]:
        """Every case with its probes, in a fixed order."""

    def known_facts(self) -> list[KnownFact]:
        """Facts that held before, with questions."""


def open_edits(path: Path) -> Edits:
    """An exported timestep's folder, or a JSON file of edits.

    Raises:
        BenchmarkError: if it is neither.
    """
    return EditFile.open(path) if path.is_file() else Timestep.open(path)


@dataclass(frozen=True, slots=True)
class EditFile:
    """A file of edits in EasyEdit's form.

    Attributes:
        path: The file.
        sha256: Of its bytes.
        rows: Its objects, checked.
    """

    path: Path
    sha256: str
    rows: tuple[Mapping[str, Any], ...]

    @classmethod
    def open(cls, path: Path) -> EditFile:
        """Read and check a file.

        Raises:
            BenchmarkError: if it is no such file; with the number of the first object that is wrong.
        """
        try:
            content = path.read_bytes()
            rows = json.loads(content)
        except (OSError, ValueError) as error:
            raise BenchmarkError(f"The edits {path} cannot be read: {error}. Give a JSON file.") from error
        if not isinstance(rows, list) or not rows:
            raise BenchmarkError(f"The edits {path} must be a JSON list of objects with prompt and target_new.")
        for number, row in enumerate(rows):
            _check(row, f"Edit {number} of {path}")
        return cls(path, hashlib.sha256(content).hexdigest(), tuple(rows))

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    def cases(self) -> Iterator[Case]:
        """One case per object, in file order."""
        for number, row in enumerate(self.rows):
            yield case_of_row(row, number, self.name)

    def known_facts(self) -> list[KnownFact]:
        """The edits' old answers, and the locality questions with theirs."""
        facts = []
        for number, row in enumerate(self.rows):
            old = _text(row, "old")
            if old:
                fact = _fact(number, _text(row, "subject"), old)
                facts.append(KnownFact(fact, _text(row, "prompt"), _text(row, "rephrase"), "", old))
            for place, (question, answer) in enumerate(_locality(row)):
                facts.append(KnownFact(_near_fact(number, place, question, answer), question, "", "", answer))
        return facts


def _check(row: Any, where: str) -> None:
    if not isinstance(row, Mapping):
        raise BenchmarkError(f"{where} is no JSON object. Each needs prompt and target_new.")
    for name in _NEEDED:
        if not _text(row, name):
            raise BenchmarkError(f"{where} lacks {' or '.join(_TEXTS[name])}. Add it, or leave the edit out.")
    for names in _TEXTS.values():
        for name in names:
            if name in row and row[name] is not None and not isinstance(row[name], str | list):
                raise BenchmarkError(f"{where} has {name} = {row[name]!r}, which must be a text.")


def _text(row: Mapping[str, Any], what: str) -> str:
    """The first text under any of the names; of a list its first entry."""
    for name in _TEXTS.get(what, (what,)):
        value = row.get(name)
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _locality(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    listed = row.get("locality")
    if isinstance(listed, list):
        pairs = [(_text(item, "loc"), _text(item, "loc_ans")) for item in listed if isinstance(item, Mapping)]
    else:
        pairs = [(_text(row, "near"), _text(row, "near_answer"))]
    return [(question, answer) for question, answer in dict.fromkeys(pairs) if question and answer]


def _fact(number: int, subject: str, answer: str) -> Fact:
    return Fact(f"subject-{number}", subject, f"relation-{number}", "", f"object-{number}", answer)


def _near_fact(number: int, place: int, question: str, answer: str) -> Fact:
    own = f"{number}-{place}"
    return Fact(f"near-{own}", question, f"near-relation-{own}", "", f"near-object-{own}", answer)


def case_of_row(row: Mapping[str, Any], number: int, name: str) -> Case:
    """The case of one object of a file.

    Args:
        row: Checked.
        number: Which of the file's objects it is.
        name: Of the file.
    """
    answer, old, prompt = _text(row, "target"), _text(row, "old"), _text(row, "prompt")
    fact = _fact(number, _text(row, "subject"), answer)
    # Three parts, of which the middle one is the cluster of the bootstrap.
    parts = (row.get("source") or "edit", number, row.get("case_id", row.get("id", number)))
    probes = [Probe("update", prompt, (answer,), (fact,))]
    if rephrase := _text(row, "rephrase"):
        probes.append(Probe("rephrase", rephrase, (answer,), (fact,)))
    for place, (question, near) in enumerate(_locality(row)):
        probes.append(Probe("locality", question, (near,), (_near_fact(number, place, question, near),)))
    return Case(
        case_id=":".join(re.sub(r"[:\s]+", "-", str(part)) for part in parts),
        timestep=name,
        tag="update" if old else "new",
        fact=fact,
        question=prompt,
        answer=answer,
        cloze="",
        old_objects=(f"old-{number}",) if old else (),
        old_answers=(old,) if old else (),
        probes=tuple(probes),
    )
