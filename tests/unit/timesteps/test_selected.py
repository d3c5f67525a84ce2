"""A timestep of selected subjects and relations: it contains what was selected, and the rest is counted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from world.explored import write_explored
from world.two_days import about, item, two_snapshots

from kgedit.errors import TimestepError
from kgedit.timesteps.changes import read_dropped
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.selected import SELECTION, keep_selected, read_selection, write_selection
from kgedit.verbs.home import Home


def selection(*pairs: tuple[str | None, str | None]) -> pa.Table:
    return pa.table({"subject": [one for one, _ in pairs], "property": [other for _, other in pairs]}, SELECTION)


def write(folder: Path, text: str) -> Path:
    (folder / "only.csv").write_text(text, encoding="utf-8")
    return folder / "only.csv"


def test_what_is_written_is_read_again_sorted_and_once(tmp_path: Path) -> None:
    given = selection(("Q2", "P6"), (None, "P35"), ("Q1", None), ("Q2", "P6"))
    write_selection(tmp_path / "deep" / "only.csv", given)
    assert (tmp_path / "deep" / "only.csv").read_text(encoding="utf-8") == "subject,property\n,P35\nQ1,\nQ2,P6\n"
    assert read_selection(tmp_path / "deep" / "only.csv") == selection((None, "P35"), ("Q1", None), ("Q2", "P6"))


def test_a_file_as_a_spreadsheet_writes_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, '\ufeffsubject,property\r\n"Q1", P6\r\n\r\nQ2\r\n')
    assert read_selection(path) == selection(("Q1", "P6"), ("Q2", None))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be: subject,property"),
        ("item,relation\nQ1,P6\n", "must be: subject,property"),
        ("subject,property\n", "selects nothing"),
        ("subject,property\nQ1,P6\n,\n", "Line 3"),
        ("subject,property\nGermany,P6\n", "Line 2"),
        ("subject,property\nQ1,Q6\n", "Line 2"),
        ("subject,property\nQ1,P6,P7\n", "Line 2"),
    ],
)
def test_a_file_that_selects_nothing_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TimestepError, match=said):
        read_selection(write(tmp_path, text))


def test_an_empty_cell_stands_for_any() -> None:
    pairs = [("Q1", "P6"), ("Q1", "P35"), ("Q2", "P6"), ("Q3", "P35"), ("Q3", "P6")]
    changes = pa.table({"subject": [one for one, _ in pairs], "property": [two for _, two in pairs]})
    found = keep_selected(changes, selection(("Q1", "P6"), ("Q2", None), (None, "P35")))
    assert [tuple(row.values()) for row in found.kept.to_pylist()] == [
        ("Q1", "P35"),
        ("Q1", "P6"),
        ("Q2", "P6"),
        ("Q3", "P35"),
    ]
    assert [row["subject"] + row["property"] for row in found.dropped.to_pylist()] == ["Q3P6"]
    assert found.funnel == {"not in the selection": 1}
    assert keep_selected(changes, None).kept == changes


@pytest.mark.slow
def test_a_timestep_of_a_selection_has_its_cases_and_counts_the_rest(tmp_path: Path) -> None:
    named = [item("P6", label="head"), *(item(f"Q{number}", label=f"Leader {number}") for number in range(200, 204))]
    old = [*named, *(item(f"Q{n}", about("P6", f"Q{199 + n}"), label=f"Land {n}") for n in (1, 2, 3))]
    new = [*named, *(item(f"Q{n}", about("P6", f"Q{200 + n}"), label=f"Land {n}") for n in (1, 2, 3))]
    before, after = two_snapshots(tmp_path, old, new)
    settings = WikiBigEditSettings(only=write(tmp_path, "subject,property\nQ2,P6\n"))
    timestep = export_timestep(StoreEngine(), before, after, tmp_path / "timestep", settings=settings)
    assert [case.fact.subject for case in timestep.cases()] == ["Q2"]
    assert timestep.manifest["funnel"]["dropped"]["not in the selection"] == 2
    assert len(timestep.manifest["settings"]["only"]) == 64
    dropped = read_dropped(timestep)
    assert dropped is not None
    assert {(row["subject"], row["reason"]) for row in dropped.to_pylist()} == {
        ("Q1", "not in the selection"),
        ("Q3", "not in the selection"),
    }


@pytest.mark.slow
def test_the_profile_wikifactdiff_takes_a_selection_too(tmp_path: Path) -> None:
    home = Home(write_explored(tmp_path))
    only = write(tmp_path, "subject,property\nQ1,\n")
    timestep = home.export_timestep("2021-01-04", "2023-02-27", profile="wikifactdiff", only=only, out=tmp_path / "one")
    funnel = timestep.manifest["funnel"]
    assert {case.fact.subject for case in timestep.cases()} == {"Q1"}, funnel
    assert funnel["dropped"]["not in the selection"] > 0
