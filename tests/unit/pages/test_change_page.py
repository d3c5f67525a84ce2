"""The page of a timestep, without a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from world.hostile import HOSTILE
from world.page_runs import NAMES, unpacked, write_page_timestep
from world.small_timestep import write_timestep

from kgedit.cli import main
from kgedit.pages.change_cards import BASES, shown_dropped
from kgedit.pages.change_page import change_page
from kgedit.timesteps.changes import DROPPED, dropped_changes, read_dropped
from kgedit.timesteps.labels import LABELS
from kgedit.timesteps.locality import _WAYS
from kgedit.timesteps.timestep import Timestep


def data_of(html: str) -> Any:
    found = re.search(r'id="cards-data">([^<]+)<', html)
    assert found
    return unpacked(found[1])


@pytest.fixture
def timestep(tmp_path: Path) -> Timestep:
    """Ten cases and twelve dropped changes."""
    return Timestep.open(write_page_timestep(tmp_path / "20200101_20210101", NAMES))


def test_the_same_timestep_gives_the_same_bytes(timestep: Timestep) -> None:
    assert change_page(timestep, command="x").html == change_page(timestep, command="x").html


def test_the_lead_tells_what_became_of_the_changes(timestep: Timestep) -> None:
    html = change_page(timestep, command="x").html
    lead = re.sub("<[^>]+>", "", re.findall(r'<p class="lead">(.*?)</p>', html)[0])
    assert lead == (
        "22 facts changed between the two snapshots. 10 became cases: 10 replace a value and 0 add one where there was "
        "none. 12 were dropped, 6 of them because: not entity to entity."
    )


def test_cards_hold_questions_chain_and_probe(timestep: Timestep) -> None:
    data = data_of(change_page(timestep, command="x").html)
    strings, lists, cards = data["strings"], data["lists"], data["cards"]
    assert len(cards["id"]) == 10
    texts = [strings[index] for index in lists[cards["questions"][0]]]
    assert texts[:3] == ["update", "Who leads Town 0?", "Town 0 II"]
    assert len(lists[cards["hops"][0]]) == len(lists[cards["near"][0]]) == 4
    assert cards["confidence"][0] == 95


def test_every_figure_has_numbers_of_its_own(timestep: Timestep) -> None:
    figures = {figure.name: figure for figure in change_page(timestep, command="x").figures}
    assert set(figures) == {"funnel", "since", "kinds-and-relations", "topics", "specificity", "words"}
    assert "not entity to entity −6" in figures["funnel"].panels[0].title
    assert "2020-05: 10" in figures["since"].panels[0].title
    assert figures["words"].panels[0].title == "Words of subjects: Town 10"


def test_a_timestep_without_dropped_changes_says_how_to_get_them(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "20200101_20210101")
    assert read_dropped(timestep) is None
    assert "kgedit export-timestep --overwrite" in change_page(timestep, command="x").html


def test_hostile_labels_leave_the_markup_alone(tmp_path: Path) -> None:
    timestep = Timestep.open(write_page_timestep(tmp_path / "20200101_20210101", HOSTILE))
    html = change_page(timestep, command=HOSTILE[2], browser=HOSTILE[1]).html
    assert "<img src=x" not in html
    assert "<b id=injected>" not in html
    assert html.count("<script") == 2


def test_of_too_many_dropped_changes_each_reason_has_its_share(timestep: Timestep) -> None:
    found = shown_dropped(timestep, most=4)
    assert found
    rows, counts = found
    assert [row["reason"] for row in rows].count("not entity to entity") == 2
    assert len(rows) == 4
    assert sum(counts.values()) == 12


def test_dropped_changes_have_labels_in_the_order_of_objects_and_their_reason() -> None:
    changes = pa.table(
        {
            "subject": ["Q1", "Q2"],
            "property": ["P6", "P6"],
            "old_objects": [["Q4", "Q3"], []],
            "new_objects": [["V9"], ["Q3"]],
        },
        schema=pa.schema(
            [("subject", pa.string()), ("property", pa.string())]
            + [(name, pa.list_(pa.string())) for name in ("old_objects", "new_objects")]
        ),
    )
    labels = pa.Table.from_pylist(
        [
            {"id": "P6", "label": "head", "old_label": "head", "aliases": [], "is_page": False},
            {"id": "Q1", "label": None, "old_label": "Gone", "aliases": [], "is_page": False},
            {"id": "Q3", "label": "Three", "old_label": "Old three", "aliases": [], "is_page": False},
            {"id": "Q4", "label": "Four", "old_label": None, "aliases": [], "is_page": False},
        ],
        schema=LABELS,
    )
    dropped = changes.slice(0, 1).append_column("reason", pa.array(["not entity to entity"]))
    (rows,) = dropped_changes([(dropped, labels)])
    (row,) = rows.to_pylist()
    assert row == {
        "subject": "Q1",
        "subject_label": "Gone",
        "property": "P6",
        "property_label": "head",
        "old_objects": ["Q4", "Q3"],
        "old_labels": ["Four", "Old three"],
        "new_objects": ["V9"],
        "new_labels": [None],
        "reason": "not entity to entity",
    }
    (none,) = dropped_changes([(dropped.slice(0, 0), labels)])
    assert none.schema == DROPPED


def test_describe_writes_page_and_figures(timestep: Timestep, tmp_path: Path) -> None:
    target = tmp_path / "changes.html"
    command = ["describe", str(timestep.folder), "--html", str(target), "--figures", str(tmp_path / "figures")]
    made = CliRunner().invoke(main, [*command, "--browser", "http://127.0.0.1:7475/browser/?dbms=bolt://x"])
    assert made.exit_code == 0, made.output
    assert data_of(target.read_text(encoding="utf-8"))["browser"] == "http://127.0.0.1:7475/browser/?dbms=bolt://x"
    assert (tmp_path / "figures" / "funnel.png").is_file()
    assert CliRunner().invoke(main, command).exit_code == 1


def test_a_browser_that_is_no_web_address_is_refused(timestep: Timestep, tmp_path: Path) -> None:
    given = [
        "describe",
        str(timestep.folder),
        "--html",
        str(tmp_path / "page.html"),
        "--browser",
        "javascript:alert(1)",
    ]
    ran = CliRunner().invoke(main, given)
    assert (ran.exit_code, "is not the address of a page" in ran.output) == (1, True)
    assert not (tmp_path / "page.html").exists()


def test_every_way_to_find_a_locality_probe_has_words() -> None:
    assert set(_WAYS) <= set(BASES)


def test_a_card_shows_how_its_locality_probe_was_found(timestep: Timestep) -> None:
    data = data_of(change_page(timestep, command="x").html)
    bases = {data["strings"][number] for number in data["cards"]["basis"] if number >= 0}
    found = set(timestep.table("locality")["basis"].to_pylist()) - {None}
    assert found
    assert {BASES[basis] for basis in found} <= bases
