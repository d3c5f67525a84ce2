"""Contract of edit file formats, the formats by name, and the result of reading a row.

Another package adds a format through the entry-point group kgedit.edit_formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgedit.records.cases import Case, KnownFact
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
