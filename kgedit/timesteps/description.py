"""Contents of a timestep or a file of edits: one long table of counts and measures.

Only available columns are used: a published file has no funnel, a timestep of one profile no scenarios.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.records.cases import SCENARIOS, SPECIFICITY, Case
from kgedit.store.engine import select
from kgedit.timesteps.edit_files import EditFile, Edits
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import has_own_tables, own_table

DESCRIPTION = pa.schema(
    [
        ("part", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),  # null if a row only lists something
        ("share", pa.float64()),  # share of the part's total; null without a total
    ]
)

CountTokens = Callable[[Sequence[str]], list[int]]
"""Function that counts the tokens of several texts."""

_CASES = pa.schema([(name, pa.string()) for name in ("tag", "relation", "question", "answer")])
_ITEM = re.compile(r"Q\d+")
DETAILS = ("scenario", "kind", "popularity", "start_time", "point_in_time", *SPECIFICITY)
_TABLES_WITH_DETAILS = ("updates", "cases")
"""Tables of a timestep in which a profile may store the columns of DETAILS. If both have a column, the first table's is
used: WikiFactDiff has more updates than cases."""

LATE = 2000
"""Facts dated after this year are counted in a row of the table."""

Row = dict[str, Any]


def describe_edits(edits: Edits, *, count_tokens: CountTokens | None = None) -> pa.Table:
    """Count everything that can be counted in edits.

    Args:
        edits: A timestep, or a file of edits.
        count_tokens: Counts a model's tokens; None counts only words.

    Returns:
        A table with the schema DESCRIPTION. Its parts, in this order and only if there is something to count: cases,
        probes, dates, funnel, not used, all updates and replacement set (WikiFactDiff, table 2), new entities by date
        and new entities (of a timestep of that profile; without a value), tags, scenarios, kinds, relations, years,
        years in all, words and tokens of questions and answers, popularity (the upper bounds of its deciles), views and
        counts of subjects and objects (by powers of ten; WikiBigEdit, figure 12).
    """
    cases = _cases(edits)
    details = _details(edits)
    rows = [
        _row("cases", "cases", cases.num_rows),
        *_counted("probes", Counter(probe.axis for case in edits.cases() for probe in case.probes), shares=False),
        *(_rows_of_manifest(edits) if isinstance(edits, Timestep) else ()),
        *(_counted("not used", edits.left_out, shares=False) if isinstance(edits, EditFile) else ()),
        *_contents(edits),
        *_new_entities(edits),
        *_counted("tags", _tally(cases["tag"].to_pylist())),
        *_counted("scenarios", _tally(details["scenario"]) or _scenarios(edits)),
        *_counted("kinds", _tally(details["kind"])),
        *_counted("relations", _tally(cases["relation"].to_pylist())),
        *_years(details, cases.num_rows),
        *_lengths(cases, "words", lambda texts: [len(text.split()) for text in texts]),
        *(_lengths(cases, "tokens", count_tokens) if count_tokens else ()),
        *_deciles(details["popularity"]),
        *(row for name in SPECIFICITY for row in _by_powers(name.replace("_", " "), details[name])),
    ]
    return pa.Table.from_pylist(rows, schema=DESCRIPTION)


def _cases(edits: Edits) -> pa.Table:
    rows = []
    for case in edits.cases():
        known = case.fact.property.startswith("P")
        label = f"{case.fact.property_label} ({case.fact.property})" if case.fact.property_label else case.fact.property
        row = {"tag": case.tag, "relation": label if known else "not named", "question": case.question}
        rows.append(row | {"answer": case.answer})
    return pa.Table.from_pylist(rows, schema=_CASES)


def _contents(edits: Edits) -> Iterator[Row]:
    """Rows of table 2 of WikiFactDiff: of all updates, and of WFD_repl if it is known."""
    if isinstance(edits, Timestep) and has_own_tables(edits):
        updates, objects = own_table(edits, "updates"), own_table(edits, "objects")
        triples = select(_OWN_TRIPLES, updates=updates, objects=objects)
    else:
        triples = pa.Table.from_pylist([row for case in edits.cases() for row in _triples(case)], schema=_TRIPLES)
    for part, condition in (("all updates", "true"), ("replacement set", "in_replacement_set")):
        (counts,) = select(_TABLE_2.format(condition=condition), triples=triples).to_pylist()
        if not counts["updates"]:
            continue
        yield from (_row(part, name.replace("_", " "), count) for name, count in counts.items() if name != "scenarios")
        found = dict(counts["scenarios"] or [])
        for name in SCENARIOS if found else ():
            yield _row(part, name, found.get(name, 0), found.get(name, 0) / counts["updates"])


def _triples(case: Case) -> Iterator[Row]:
    about: Row = {"subject": case.fact.subject, "property": case.fact.property, "scenario": case.scenario}
    about |= {"in_replacement_set": case.in_replacement_set}
    old = zip_longest(case.old_objects, case.old_answers, fillvalue="")
    for thing, label in ((case.fact.object, case.answer), *old):
        is_entity = _ITEM.fullmatch(thing) is not None
        yield about | {"object": thing if is_entity else label or thing, "is_entity": is_entity}


_TRIPLES = pa.schema(
    [
        *((name, pa.string()) for name in ("subject", "property", "scenario", "object")),
        *((name, pa.bool_()) for name in ("in_replacement_set", "is_entity")),
    ]
)

_OWN_TRIPLES = """
    SELECT subject, property, scenario, in_replacement_set, object[1] = 'Q' AS is_entity,
           CASE WHEN object[1] = 'Q' THEN object ELSE object_label END AS object
    FROM updates JOIN objects USING (subject, property)
"""
"""A literal counts once per spelling, as in the released code; so does an entity that a file names without an id."""

_TABLE_2 = """
    WITH triple AS (SELECT DISTINCT * FROM triples WHERE {condition}),
    scenario AS (
        SELECT scenario, count(DISTINCT (subject, property)) AS updates FROM triple WHERE scenario IS NOT NULL
        GROUP BY scenario
    )
    SELECT count(DISTINCT (subject, property, object)) AS triples, count(DISTINCT subject) AS subjects,
           count(DISTINCT property) AS relations, count(DISTINCT object) AS objects,
           count(DISTINCT object) FILTER (is_entity) AS entity_objects,
           count(DISTINCT object) FILTER (NOT is_entity) AS literal_objects,
           count(DISTINCT (subject, property)) AS updates,
           (SELECT map_from_entries(list((scenario, updates))) FROM scenario) AS scenarios
    FROM triple
"""


def _new_entities(edits: Edits) -> Iterator[Row]:
    """Entities created in the window (WikiFactDiff's E+), each with its date of creation."""
    if not (isinstance(edits, Timestep) and has_own_tables(edits)):
        return
    entities = own_table(edits, "created_entities").to_pylist()
    dated_by = [f"{row['property_label'] or row['property']} ({row['property']})" for row in entities]
    yield from _counted("new entities by date", Counter(dated_by))
    for row, relation in zip(entities, dated_by, strict=True):
        yield _row("new entities", f"{row['label'] or row['id']} ({row['id']}): {relation} {row['created']}", None)


def _details(edits: Edits) -> dict[str, list[Any]]:
    """Columns of DETAILS: null if a case, or an update of WikiFactDiff, has no value; empty if none can have one."""
    columns: dict[str, list[Any]] = {name: [] for name in DETAILS}
    if isinstance(edits, EditFile):
        return {name: [getattr(details, name, None) for _, details in edits.details()] for name in DETAILS}
    if isinstance(edits, Timestep):
        for path in (edits.folder / f"{name}.parquet" for name in _TABLES_WITH_DETAILS):
            wanted = [name for name in _names(path) if name in DETAILS and not columns[name]]
            columns |= pq.read_table(path, columns=wanted).to_pydict() if wanted else {}
    return columns


def _names(path: Path) -> list[str]:
    return list(pq.read_schema(path).names) if path.is_file() else []


def _tally(values: Sequence[str | None]) -> Counter[str]:
    return Counter(value for value in values if value is not None)


def _scenarios(edits: Edits) -> Mapping[str, int]:
    recorded = edits.manifest.get("scenarios") if isinstance(edits, Timestep) else None
    return recorded if isinstance(recorded, dict) else {}


def _rows_of_manifest(timestep: Timestep) -> Iterator[Row]:
    days = timestep.name.split("_")
    if len(days) == 2 and all(day.isdigit() for day in days):
        yield from (_row("dates", name, int(day)) for name, day in zip(("from", "to"), days, strict=True))
    yield from _flat("funnel", timestep.manifest.get("funnel"))


def _flat(part: str, recorded: Any, prefix: str = "") -> Iterator[Row]:
    """Numbers of a nested mapping, named by the path of keys to them."""
    for name, value in recorded.items() if isinstance(recorded, dict) else ():
        path = f"{prefix}: {name}" if prefix else str(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield _row(part, path, value)
        else:
            yield from _flat(part, value, path)


def _years(details: Mapping[str, Sequence[str | None]], cases: int) -> Iterator[Row]:
    """Year in which a fact began, or at which it was observed, by its own qualifiers."""
    times = (start or point for start, point in zip_longest(details["start_time"], details["point_in_time"]))
    years = sorted(year for time in times if time and (year := _year(time)) is not None)
    if not years:
        return
    yield from _counted("years", Counter(map(str, years)), by_count=False)
    late = sum(year > LATE for year in years)
    yield _row("years in all", "dated", len(years), len(years) / cases)
    yield _row("years in all", f"after {LATE}", late, late / len(years))


def _year(time: str) -> int | None:
    sign, digits = (-1, time[1:]) if time.startswith("-") else (1, time)
    year = digits.partition("-")[0]
    return sign * int(year) if year.isdigit() else None


def _lengths(cases: pa.Table, unit: str, count: CountTokens) -> Iterator[Row]:
    for column in ("question", "answer"):
        numbers = np.array(count(cases[column].to_pylist()) or [0])
        measures = {
            "mean": round(float(numbers.mean()), 4),
            "median": float(np.median(numbers)),
            "95th percentile": float(np.percentile(numbers, 95)),
            "most": float(numbers.max()),
        }
        yield from (_row(f"{unit} of a{'n' if column == 'answer' else ''} {column}", name, value)
                    for name, value in measures.items())  # fmt: skip


def _deciles(popularity: Sequence[float | None]) -> Iterator[Row]:
    values = [value for value in popularity if value is not None]
    if values:
        for index, bound in enumerate(np.percentile(values, range(10, 101, 10)), start=1):
            yield _row("popularity", f"decile {index}", round(float(bound), 6))


def _by_powers(part: str, values: Sequence[int | None]) -> Iterator[Row]:
    known = [value for value in values if value is not None]
    if known:
        yield from _counted(part, dict(by_powers_of_ten(known)), by_count=False)
        yield _row(part, "median", float(np.median(known)))


def by_powers_of_ten(values: Sequence[int]) -> list[tuple[str, int]]:
    """Number of values by number of digits, without gaps: a histogram on a logarithmic axis.

    >>> by_powers_of_ten([0, 7, 7, 120])
    [('0', 1), ('1–9', 2), ('10–99', 0), ('100–999', 1)]
    """
    digits = Counter(len(str(value)) if value else 0 for value in values)
    return [
        (f"{10 ** (count - 1):,}–{10**count - 1:,}" if count else "0", digits[count])
        for count in range(min(digits), max(digits) + 1)
    ]


def _counted(part: str, counts: Mapping[str, int], *, shares: bool = True, by_count: bool = True) -> Iterator[Row]:
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0])) if by_count else counts.items()
    for name, count in ordered:
        yield _row(part, name, count, count / total if shares and total else None)


def _row(part: str, name: str, value: float | None, share: float | None = None) -> Row:
    return {"part": part, "name": name, "value": value, "share": None if share is None else round(share, 6)}
