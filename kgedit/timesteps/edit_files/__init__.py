"""Published edits, read as cases: one module per format, recognised by content.

`open_edits` is the entry point, also for timesteps exported by kgedit.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kgedit.errors import TimestepError
from kgedit.records.cases import LOCALITY_AXES, Case, KnownFact, Probe
from kgedit.timesteps.edit_files.contract import (
    ARCHIVE,
    EDIT_FORMATS,
    CaseDetails,
    EditFormat,
    NotRowsError,
    ReadCase,
    RowPlace,
    read_rows,
)
from kgedit.timesteps.timestep import Timestep

__all__ = ["EDIT_FORMATS", "EditFile", "Edits", "open_edits"]


class Edits(Protocol):
    """The edits of one step of a run: an exported timestep, or a file of edits."""

    @property
    def name(self) -> str:
        """Name, unique within a run."""

    @property
    def sha256(self) -> str:
        """Hash of the content."""

    @property
    def unused_fields(self) -> tuple[str, ...]:
        """Fields that are not part of any case, as text."""

    @property
    def options(self) -> frozenset[str]:
        """Parameters of `cases` that have an effect on these edits."""

    def cases(
        self, *, neighbours: int | None = None, archive_as: str | None = None, two_hop_rephrases: bool = False
    ) -> Iterator[Case]:
        """Yield every case with its probes, in a fixed order.

        Args:
            neighbours: Maximum number of probes on each locality axis; None means the default of the edits.
            archive_as: Target for facts that ended without a successor; None leaves them out.
            two_hop_rephrases: Whether to add paraphrases of two-hop questions, if there are any.
        """

    def known_facts(self) -> list[KnownFact]:
        """Facts that held before, with questions."""


def open_edits(path: Path) -> Edits:
    """Open an exported timestep's folder, or a file of edits in any format.

    Raises:
        TimestepError: if it is neither.
    """
    return EditFile.open(path) if path.is_file() else Timestep.open(path)


_SHOWN_FIELDS = 12
"""Fields of an unknown file that the message lists; some sets have dozens."""


@dataclass(frozen=True, slots=True)
class UnusedField:
    """A field of a file that is not part of any case.

    Attributes:
        path: Dotted path; lists are transparent.
        rows: Number of objects with a value in it.
        reason: Why it is not used.
    """

    path: str
    rows: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} ({self.rows:,} object{'' if self.rows == 1 else 's'}): {self.reason}"


@dataclass(frozen=True, slots=True)
class EditFile:
    """A file of edits.

    Attributes:
        path: The file.
        sha256: Hash of its bytes.
        edit_format: Its format.
        read: Its cases with their details, in file order.
        left_out: Reason -> number of objects and probes that could not be read.
        unused: Its fields that are not part of a case, by path.
        archived: Facts that ended without a successor, as cases without an answer.
    """

    path: Path
    sha256: str
    edit_format: EditFormat
    read: tuple[ReadCase, ...]
    left_out: Mapping[str, int]
    unused: tuple[UnusedField, ...]
    archived: tuple[Case, ...] = ()

    @classmethod
    def open(cls, path: Path) -> EditFile:
        """Read and check a file.

        Raises:
            TimestepError: if its format is unknown, an object is malformed, or no object is an edit.
        """
        try:
            content = path.read_bytes()
            rows = read_rows(content)
        except OSError as error:
            raise TimestepError(f"The edits {path} cannot be read: {error}. Give a file of edits.") from error
        except NotRowsError as error:
            raise _not_edits(path, str(error)) from error
        edit_format = _recognise(path, rows)
        for number, row in enumerate(rows):
            _check(row, edit_format, f"Edit {number} of {path}")
        left_out: Counter[str] = Counter()
        unused = _unused_fields(rows, edit_format)
        complete = edit_format.complete_rows(path, rows) if edit_format.complete_rows else rows
        every = tuple(_read_cases(complete, edit_format, _name(path), left_out))
        read = tuple(one for one in every if one[0].scenario != ARCHIVE)
        archived = tuple(case for case, _ in every if case.scenario == ARCHIVE)
        if archived:
            left_out["archived facts, which a run takes with --archive-as only"] = len(archived)
        if not every:
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(left_out.items()))
            raise TimestepError(
                f"{path} has the form {edit_format.name}, and none of its objects is an edit: {reasons}."
            )
        sha256, sorted_counts = hashlib.sha256(content).hexdigest(), dict(sorted(left_out.items()))
        return cls(path, sha256, edit_format, read, sorted_counts, unused, archived)

    @property
    def name(self) -> str:
        """The file's name without its suffix; for an export in a timestep's folder the name of the folder."""
        return _name(self.path)

    @property
    def unused_fields(self) -> tuple[str, ...]:
        """The fields that are not part of any case, as text."""
        return tuple(map(str, self.unused))

    @property
    def options(self) -> frozenset[str]:
        """Parameters of `cases` that have an effect: archive_as only if the file has archived facts."""
        return frozenset(("neighbours", "archive_as") if self.archived else ("neighbours",))

    def notes(self) -> tuple[str, ...]:
        """Unused parts of the file, as text: fields, then objects and questions by reason."""
        return self.unused_fields + tuple(f"{reason}: {count:,}" for reason, count in self.left_out.items())

    def cases(
        self,
        *,
        neighbours: int | None = None,
        archive_as: str | None = None,
        two_hop_rephrases: bool = False,  # noqa: ARG002 - the signature of Timestep.cases
    ) -> Iterator[Case]:
        """The cases of all objects, in file order; archived facts last.

        Args:
            neighbours: Maximum number of probes on each locality axis; None means all.
            archive_as: Target for archived facts; None leaves them out.
            two_hop_rephrases: Ignored, because no format has them.
        """
        every = [case for case, _ in self.read]
        every += [_taught(case, archive_as) for case in self.archived] if archive_as else []
        if neighbours is None:
            return iter(every)
        return (dataclasses.replace(case, probes=_first_neighbours(case.probes, neighbours)) for case in every)

    def details(self) -> Iterator[tuple[Case, CaseDetails]]:
        """Yield the cases with their details."""
        return iter(self.read)

    def known_facts(self) -> list[KnownFact]:
        """The edits' old answers, the locality questions with their answers, and other facts that held before."""
        facts = []
        for case, details in self.read:
            if case.old_answers:
                old = case.old_answers[0]
                held = dataclasses.replace(
                    case.fact, object=case.old_objects[0] if case.old_objects else "", object_label=old
                )
                facts.append(KnownFact(held, case.question, _first(case.probes, "rephrase"), case.cloze, old))
            for probe in case.probes:
                if probe.axis == "locality":
                    facts.append(KnownFact(probe.facts[0], probe.question, "", "", probe.answers[0]))
            facts += details.known_facts
        return facts


def _taught(case: Case, answer: str) -> Case:
    """An archived fact with this answer as its target."""
    fact = dataclasses.replace(case.fact, object_label=answer)
    probes = tuple(
        probe if probe.axis in LOCALITY_AXES else dataclasses.replace(probe, answers=(answer,), facts=(fact,))
        for probe in case.probes
    )
    return dataclasses.replace(case, fact=fact, answer=answer, probes=probes)


def _first_neighbours(probes: Sequence[Probe], most: int) -> tuple[Probe, ...]:
    kept, counts = [], Counter[str]()
    for probe in probes:
        counts[probe.axis] += 1
        if probe.axis not in LOCALITY_AXES or counts[probe.axis] <= most:
            kept.append(probe)
    return tuple(kept)


def _name(path: Path) -> str:
    folder = path.absolute().parent
    return folder.name if (folder / "timestep.json").is_file() else path.stem


def _first(probes: Sequence[Probe], axis: str) -> str:
    return next((probe.question for probe in probes if probe.axis == axis), "")


def _recognise(path: Path, rows: Sequence[Any]) -> EditFormat:
    if not rows:
        raise _not_edits(path, "its list is empty")
    if isinstance(rows[0], Mapping) and {"requested_rewrite", "post"} <= rows[0].keys():
        raise TimestepError(
            f"{path} holds results of EasyEdit, not edits: its first object has requested_rewrite and post. Read its "
            f"scores: kgedit report {shlex.quote(str(path))}"
        )
    for name in EDIT_FORMATS:
        if EDIT_FORMATS[name].recognises(rows[0]):
            return EDIT_FORMATS[name]
    if not isinstance(rows[0], Mapping):
        raise _not_edits(path, f"its first entry is a {type(rows[0]).__name__}, not an object")
    fields = ", ".join(list(rows[0])[:_SHOWN_FIELDS]) or "no fields"
    raise _not_edits(path, f"its first object has {fields}")


def _not_edits(path: Path, found: str) -> TimestepError:
    forms = "\n".join(f"  {name}: {EDIT_FORMATS[name].described_needs()}" for name in EDIT_FORMATS)
    return TimestepError(
        f"{path} is not a file of edits that kgedit reads: {found}.\n"
        f"A JSON list, JSON Lines, CSV or Parquet is read whose objects have the fields of one form:\n{forms}"
    )


def _check(row: Any, edit_format: EditFormat, where: str) -> None:
    if not isinstance(row, Mapping):
        raise TimestepError(f"{where} is not a JSON object. Each needs {edit_format.described_needs()}.")
    for name in edit_format.texts:
        value = row.get(name)
        if value is None or isinstance(value, str | list) or (isinstance(value, float) and math.isnan(value)):
            continue
        raise TimestepError(f"{where} has {name} = {value!r}, which must be a text.")
    try:
        json.dumps(row, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        found = ascii(error.object[error.start])
        raise TimestepError(
            f"{where} has a text with {found}, half of a character, which cannot be written as UTF-8. Correct the text."
        ) from error


def _read_cases(rows: Sequence[Any], edit_format: EditFormat, name: str, left_out: Counter[str]) -> Iterator[ReadCase]:
    """Read the cases of all rows; ids are made unique, and two-hop questions name the case of their second fact."""
    found = [
        read for number, row in enumerate(rows) for read in edit_format.read_row(row, RowPlace(name, number, left_out))
    ]
    ids = {case.case_id for case, _ in found}
    times: Counter[str] = Counter()
    for case, details in found:
        times[case.case_id] += 1
        nth = times[case.case_id]
        probes = tuple(_with_second_case(probe, ids) for probe in case.probes)
        if nth > 1 or probes != case.probes:
            case_id = case.case_id if nth == 1 else f"{case.case_id}#{nth}"
            case = dataclasses.replace(case, case_id=case_id, probes=probes)  # noqa: PLW2901 - the same case, with its number
        yield case, details


def _with_second_case(probe: Probe, ids: set[str]) -> Probe:
    if probe.axis != "mhop" or probe.chain is not None or len(probe.facts) != 2:
        return probe
    second = probe.facts[1]
    case_id = f"{second.subject}:{second.property}:{second.object}"
    return dataclasses.replace(probe, second_case_id=case_id) if case_id in ids else probe


def _unused_fields(rows: Sequence[Mapping[str, Any]], edit_format: EditFormat) -> tuple[UnusedField, ...]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(set(_paths(row)))
    reasons = {path: _reason(path, edit_format) for path in counts}
    return tuple(UnusedField(path, counts[path], reason) for path, reason in sorted(reasons.items()) if reason)


def _reason(path: str, edit_format: EditFormat) -> str:
    """Reason why a field is not used; "" if it is."""
    if any(fnmatch.fnmatchcase(path, used) for used in edit_format.used):
        return ""
    for known, reason in edit_format.unusable.items():
        if fnmatch.fnmatchcase(path, known):
            return reason
    return f"not known to the form {edit_format.name}"


def _paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted path of every value; lists are transparent."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _paths(inner, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for item in value:
            yield from _paths(item, prefix)
    elif value not in (None, "", []):
        yield prefix
