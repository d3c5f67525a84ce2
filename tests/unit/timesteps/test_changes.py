"""Changed edges judged by the filters, without a server: cases of the rules on hand-made snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from world.dumps import Json, entity, entity_value, snak, statement
from world.two_days import about, changed_edges, item, two_snapshots

from kgedit.store.window import Window
from kgedit.timesteps.changes import FILTERS, filter_changes, keep_changes
from kgedit.timesteps.labels import LABELS, labelled_parts, write_labels

Judge = Callable[[list[Json], list[Json]], dict[str, str | None]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """What became of each changed subject and property: the reason for which it was dropped, or None."""

    def judged(old: list[Json], new: list[Json]) -> dict[str, str | None]:
        before, after = two_snapshots(tmp_path, old, new)
        with Window(before, after, spill=tmp_path / "spill") as window:
            keep_changes(window, [changed_edges(before, after)])
            write_labels(window, tmp_path / "labels.parquet")
            ((part, labels),) = labelled_parts(window.connection, "change", tmp_path / "labels.parquet")
        filtered = filter_changes(part, labels)
        reasons = dict.fromkeys(_keys(filtered.kept)) | dict(
            zip(_keys(filtered.dropped), filtered.dropped["reason"].to_pylist(), strict=True)
        )
        assert list(filtered.funnel) == [reason for reason, _ in FILTERS]
        assert sum(filtered.funnel.values()) == filtered.dropped.num_rows
        assert filtered.kept.num_rows + filtered.dropped.num_rows == part.num_rows
        return reasons

    return judged


def _keys(rows: pa.Table) -> list[str]:
    return [f"{row['subject']}:{row['property']}" for row in rows.to_pylist()]


def test_a_new_object_is_kept(judge: Judge) -> None:
    things = [item("Q2"), item("Q3")]
    assert judge([item("Q1", about("P6", "Q2")), *things], [item("Q1", about("P6", "Q3")), *things]) == {"Q1:P6": None}


PAGE = "Wikimedia page: list, category, template, disambiguation, portal, module"


LIST, MODULE, MAIN = "Q13406463", "Q15184295", "Q4663261"
PAGE_CLASSES = {
    **dict.fromkeys([LIST, "Q22808320", "Q4663903", MODULE], PAGE),
    **dict.fromkeys(["Q17633526", "Q19842659", "Q21281405", MAIN], PAGE),  # Wikinews, user, redirect, main page
    "Q100": PAGE,  # below a list, by way of Q101
    "Q110": None,  # in a cycle with Q111
    "Q120": None,  # above a class of pages
}
"""Class -> why its items are no answers; None if they are."""


@pytest.mark.slow
def test_case_34_pages_of_wikimedia_are_no_answers(judge: Judge) -> None:
    chains = [("Q100", "Q101"), ("Q101", LIST), ("Q110", "Q111"), ("Q111", "Q110"), (MODULE, "Q120")]
    things = [item("Q2"), *(item(name, about("P279", above)) for name, above in chains)]
    of_class = {f"Q{number}": page_class for number, page_class in enumerate(PAGE_CLASSES, start=1000)}
    pages = [item(name, about("P31", page_class)) for name, page_class in of_class.items()]
    before = [item(f"Q9{name[1:]}", about("P6", "Q2")) for name in of_class]
    after = [item(f"Q9{name[1:]}", about("P6", name)) for name in of_class]
    expected = {f"Q9{name[1:]}:P6": PAGE_CLASSES[page_class] for name, page_class in of_class.items()}
    assert judge([*before, *pages, *things], [*after, *pages, *things]) == expected
    # As subjects they are dropped as well.
    subjects = [item(name, about("P31", page_class), about("P6", "Q2")) for name, page_class in of_class.items()]
    judged = judge([*pages, *things], [*subjects, *things])
    assert judged == {f"{name}:P6": PAGE_CLASSES[page_class] for name, page_class in of_class.items()}


@pytest.mark.parametrize("other", ["river bank", "RIVER Bank", " River  Bank "])
@pytest.mark.slow
def test_case_35_labels_that_differ_by_case_or_spaces_are_likely_duplicates(judge: Judge, other: str) -> None:
    things = [item("Q2", label="River Bank"), item("Q3", label=other)]
    judged = judge([item("Q1", about("P6", "Q2")), *things], [item("Q1", about("P6", "Q3")), *things])
    assert judged == {"Q1:P6": "old and new object bear one label: likely duplicate"}


def test_case_29_an_old_value_that_was_restricted_is_no_old_value(judge: Judge) -> None:
    restrictive = entity("P9", about("P31", "Q61719275"), label="of part")
    restricted = statement(snak("P6", entity_value("Q2")), snak("P9", "somevalue"))
    things = [item("Q2"), item("Q3"), restrictive]
    assert judge([item("Q1", restricted), *things], [item("Q1", about("P6", "Q3")), *things]) == {"Q1:P6": None}
    assert judge([item("Q1"), *things], [item("Q1", restricted), *things]) == {}


def test_case_28_a_preferred_unknown_value_is_a_removal(judge: Judge) -> None:
    unknown = statement(snak("P6", "somevalue"), rank="preferred")
    things = [item("Q2")]
    before, after = [item("Q1", about("P6", "Q2")), *things], [item("Q1", about("P6", "Q2"), unknown), *things]
    assert judge(before, after) == {"Q1:P6": "value removed, none added"}


def test_case_14_a_value_that_a_merged_item_brought_along_is_no_change() -> None:
    strings = pa.list_(pa.string())
    changes = pa.table(
        {
            "subject": ["Q1", "Q1", "Q2", "Q2"],
            "property": ["P6", "P7", "P6", "P7"],
            "old_objects": pa.array([[], ["Q8"], [], []], strings),
            "new_objects": pa.array([["Q9"], ["Q9"], [], ["Q8", "Q9"]], strings),
            "item_valued": [True] * 4,
            "subject_in_old": [True] * 4,
            "subject_in_new": [True] * 4,
            "inherited": pa.array([["Q7", "Q9"], ["Q7"], ["Q9"], ["Q9"]], strings),
        }
    )
    rows = [
        {"id": name, "label": f"Item {name}", "old_label": None, "aliases": [], "is_page": False}
        for name in ["Q1", "Q2", "Q8", "Q9"]
    ]
    filtered = filter_changes(changes, pa.Table.from_pylist(rows, schema=LABELS))
    assert _keys(filtered.kept) == ["Q1:P7"]
    assert dict(zip(_keys(filtered.dropped), filtered.dropped["reason"].to_pylist(), strict=True)) == {
        "Q1:P6": "an item merged into the subject had the value",
        "Q2:P6": "value removed, none added",
        # The merged item had one of the two added values: the other one is a change.
        "Q2:P7": "several current objects",
    }
