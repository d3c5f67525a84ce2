"""cases.parquet of a run folder: properties of each edited case, so that reports need no timestep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.checksums import decoding
from kgedit.files import put_in_place
from kgedit.records.answer_table import CASES, case_hash
from kgedit.records.cases import Case

_NAME = "cases.parquet"


def write_edited_cases(folder: Path, cases: Iterable[Case]) -> None:
    """Write the cases in the given order."""
    path, aside = folder / _NAME, folder / f".{_NAME}.aside"
    pq.write_table(case_table(cases), aside, compression="zstd")
    put_in_place(aside, path)


def case_table(cases: Iterable[Case]) -> pa.Table:
    """Rows of CASES, in the given order."""
    return pa.Table.from_pylist([_row(case) for case in cases], schema=CASES)


def read_edited_cases(folder: Path) -> pa.Table:
    """Read the cases; empty for a run of a version that did not write them."""
    path = folder / _NAME
    if not path.is_file():
        return CASES.empty_table()
    with decoding(path, fix="Give the run's command again: kgedit run-edit"):
        return pq.read_table(path, schema=CASES)


def old_answers(cases: pa.Table) -> Mapping[int, tuple[str, ...]]:
    """Hash of a case -> answers that were correct before its edit."""
    columns = cases.select(["case", "old_answers"]).to_pydict()
    return {case: tuple(old) for case, old in zip(columns["case"], columns["old_answers"], strict=True) if old}


def _row(case: Case) -> dict[str, object]:
    fact = case.fact
    start = case.start_time or case.point_in_time
    return {
        "case": case_hash(case.timestep, case.case_id),
        "timestep": case.timestep,
        "case_id": case.case_id,
        "tag": case.tag,
        "kind": case.kind,
        "year": _year(start) if start else None,
        "relation": fact.property,
        "relation_label": fact.property_label,
        "subject": fact.subject,
        "subject_label": fact.subject_label,
        "object": fact.object,
        "object_label": fact.object_label,
        "old_answers": list(case.old_answers),
        "popularity": case.popularity,
        "category": case.category,
        "scenario": case.scenario,
        "since": start,
        **asdict(case.specificity),
    }


def _year(time: str) -> str:
    """Year of an ISO time at any precision; years before the common era are negative."""
    sign, digits = ("-", time[1:]) if time.startswith("-") else ("", time)
    return sign + digits.partition("-")[0]
