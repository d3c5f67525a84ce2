"""Cases and locality probes of a timestep, written as they are worded.

Of what is written, the columns that a later step reads become a table that can spill; only counts are held in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.records.cases import SPECIFICITY
from kgedit.store.window import Window
from kgedit.timesteps.filters import Filtered, add_counts
from kgedit.timesteps.tables import CASES, FACT, LOCALITY, TableFile
from kgedit.wording.catalogues import MARK, Language

_HELD = ["case_id", *FACT, "object_aliases", "old_objects", "name", "subject_class"]


@dataclass(frozen=True, slots=True)
class WrittenCases:
    """Cases of cases.parquet.

    Attributes:
        written: Entry of the manifest for the table.
        funnel: Number of cases without a question by reason.
        questions: Results of the final filters (kgedit.timesteps.filters.Filtered).
        tags: Number of cases by tag.
        kinds: Number of cases by kind of change.
        generic: Number of cases with a generic template.
        specificity: Number of cases with each column of SPECIFICITY that any case has.
    """

    written: dict[str, Any]
    funnel: dict[str, int]
    questions: dict[str, dict[str, Any]]
    tags: dict[str, int]
    kinds: dict[str, int]
    generic: int
    specificity: dict[str, int]


def write_cases(
    window: Window, parts: Iterable[Filtered], path: Path, *, as_of: str, language: Language
) -> WrittenCases:
    """Write worded cases, and create the table worded_case of the columns that later steps read.

    Args:
        window: Window with the table dropped_change, to which cases without a question are added.
        parts: From kgedit.timesteps.wording.word_cases, with the columns of SPECIFICITY.
        path: The file.
        as_of: Day on which the facts hold.
        language: Language of the names.
    """
    counted = {name: Counter[Any]() for name in ("funnel", "tag", "kind", "generic", *SPECIFICITY)}
    questions = []
    with TableFile(path, CASES) as file:
        for part in parts:
            cases = part.kept
            file.add(_as_written(cases, as_of, language))
            window.add("worded_case", cases.select(_HELD))
            window.add("dropped_change", part.dropped.select(["subject", "property", "reason"]))
            questions.append(dict(part.questions))
            counted["funnel"].update(part.funnel)
            for name in ("tag", "kind"):
                counted[name].update(count_values(cases[name]))
            counted["generic"].update({True: pc.sum(pc.ends_with(cases["template"], ":generic")).as_py() or 0})
            for name in SPECIFICITY:
                counted[name].update({True: cases.num_rows - cases[name].null_count})
        written = file.finish()
    return WrittenCases(
        written,
        dict(counted["funnel"]),
        add_counts(questions),
        dict(sorted(counted["tag"].items())),
        dict(sorted(counted["kind"].items())),
        counted["generic"][True],
        {name: counted[name][True] for name in SPECIFICITY if counted[name][True]},
    )


def _as_written(cases: pa.Table, as_of: str, language: Language) -> pa.Table:
    if not language.is_english:
        names = pc.replace_substring(cases["name"], MARK, "")  # which only templates need
        cases = cases.set_column(cases.column_names.index("name"), "name", names)
    return cases.append_column("as_of", pa.repeat(as_of, cases.num_rows))


@dataclass(frozen=True, slots=True)
class WrittenProbes:
    """Facts of locality.parquet.

    Attributes:
        written: Entry of the manifest for the table.
        bases: Number of probes by basis.
        questions: Results of the final filters (kgedit.timesteps.filters.Filtered).
    """

    written: dict[str, Any]
    bases: dict[str, int]
    questions: dict[str, dict[str, Any]]


def write_probes(parts: Iterable[Filtered], path: Path) -> WrittenProbes:
    """Write worded locality probes, from kgedit.timesteps.wording.word_probes."""
    bases: Counter[Any] = Counter()
    questions = []
    with TableFile(path, LOCALITY) as file:
        for part in parts:
            file.add(part.kept.append_column("similarity", pc.round(part.kept["score"], 6)))
            bases.update(count_values(part.kept["basis"]))
            questions.append(dict(part.questions))
        written = file.finish()
    return WrittenProbes(written, dict(sorted(bases.items())), add_counts(questions))


def count_values(values: pa.ChunkedArray) -> dict[Any, int]:
    """Number of rows of each value, ordered by value."""
    return dict(sorted((row["values"], row["counts"]) for row in pc.value_counts(values).to_pylist()))
