"""What every form of edit files states about itself, and what reading a row of one gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgedit.records.cases import Case, KnownFact

Row = Mapping[str, Any]
"""One object of a file, as JSON or Parquet give it."""


ARCHIVE = "Archive"
"""The scenario of a fact that ceased without a successor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDetails:
    """What a file says of a case beyond the edit and its probes: for audits, descriptions and known facts.

    Attributes:
        scenario: WikiFactDiff's: ReplaceObject, AddObject, AddRelation, AddEntity, Other.
        kind: Kind of change, such as "update".
        popularity: Of the subject.
        start_time: When the fact began, at its precision ("2021-12").
        point_in_time: When it was observed.
        other_objects: What else the file says holds of the same subject and relation: ids, or labels of literals.
        known_facts: Facts that the file says held before, beside the edit's old answer.
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
    """Where a row stands, and the count of what of the file is left out.

    Attributes:
        file: Name of the file's edits.
        number: The row's, from 0.
        left_out: Reason -> how often.
    """

    file: str
    number: int
    left_out: Counter[str]


ReadCase = tuple[Case, CaseDetails]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFormat:
    """A form in which edits are published.

    Attributes:
        name: Its name in the registry.
        needs: Groups of top-level fields: a file is of this form if its first object has a field of each group, and
            each field of `types` has its type.
        types: Field -> its type in this form, where another form has a field of the same name.
        texts: Top-level fields that are a text or a list of texts.
        used: Fields that become part of a case, as dotted paths; lists are transparent, `*` stands for any name.
        unusable: Fields that are known and have no place in a case -> why.
        read_row: The cases of one row, in a fixed order; what it cannot use it counts in `left_out`.
        declares_tag: Whether the file itself says if an edit is new or an update.
        one_value: Whether a subject is meant to have one value of the relation.
        complete_rows: Fills in what a file beside this one has, given the path of the file and its rows; or None.
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

    def recognises(self, row: object) -> bool:
        """Whether a file that begins with this object is of this form."""
        return (
            isinstance(row, Mapping)
            and all(any(name in row for name in group) for group in self.needs)
            and all(isinstance(row.get(name), kind) for name, kind in self.types.items())
        )

    def described_needs(self) -> str:
        """The fields by which the form is recognised, in words."""
        return ", ".join(" or ".join(group) for group in self.needs)
