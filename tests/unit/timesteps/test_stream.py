"""Links between the timesteps of a stream: facts edited again, probes of edited facts, probes that expire."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from world.dumps import Json, hashes, load, write_dump
from world.small_timestep import write_timestep
from world.two_days import about, item

from kgedit.errors import TimestepError
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.stream import Stream, find_edited_again, find_edited_probes, find_expiring_probes, write_stream
from kgedit.timesteps.timestep import Timestep
from kgedit.verbs.home import Home

DATES = ("2021-01-04", "2022-01-03", "2023-01-02", "2024-01-01")
NAMES = pa.table({"turn": [0, 1, 2], "timestep": ["T1", "T2", "T3"]})


def edits(*rows: tuple[int, str, str]) -> pa.Table:
    """Turn, subject, new object."""
    return pa.Table.from_pylist(
        [
            {"turn": turn, "subject": subject, "property": "P6", "case_id": f"{subject}:P6:{new}", "object": new}
            for turn, subject, new in rows
        ]
    )


def test_a_fact_edited_again_names_its_earlier_cases_oldest_first() -> None:
    found = find_edited_again(edits((0, "Q1", "Q7"), (0, "Q2", "Q7"), (1, "Q1", "Q8"), (2, "Q1", "Q7")), NAMES)
    second, third = found.to_pylist()
    assert (second["timestep"], second["case_id"], second["returns"]) == ("T2", "Q1:P6:Q8", False)
    assert (second["earlier_timesteps"], second["earlier_case_ids"]) == (["T1"], ["Q1:P6:Q7"])
    assert (third["timestep"], third["case_id"], third["returns"]) == ("T3", "Q1:P6:Q7", True)
    assert third["earlier_timesteps"] == ["T1", "T2"]
    assert third["earlier_case_ids"] == ["Q1:P6:Q7", "Q1:P6:Q8"]


def probes_of(*rows: tuple[int, str]) -> pa.Table:
    """Turn and probed subject, of one edit."""
    return pa.Table.from_pylist(
        [
            {
                "turn": turn, "table": "locality", "case_id": "Q1:P6:Q8", "edited_subject": "Q1",
                "edited_property": "P6", "subject": subject, "property": "P6", "object": "Q7",
            }
            for turn, subject in rows
        ]
    )  # fmt: skip


def test_a_probe_of_a_fact_that_was_edited_before_names_the_cases_oldest_first() -> None:
    cases = edits((0, "Q2", "Q6"), (1, "Q2", "Q7"), (1, "Q3", "Q7"), (2, "Q4", "Q7"))
    probes = probes_of((0, "Q3"), (1, "Q2"), (1, "Q3"), (2, "Q2"), (2, "Q4"), (2, "Q5"))
    second, third = find_edited_probes(probes, cases, NAMES).to_pylist()
    assert (second["timestep"], second["subject"], second["case_id"]) == ("T2", "Q2", "Q1:P6:Q8")
    assert (second["earlier_timesteps"], second["earlier_case_ids"]) == (["T1"], ["Q2:P6:Q6"])
    assert (third["timestep"], third["subject"], third["object"]) == ("T3", "Q2", "Q7")
    assert third["earlier_timesteps"] == ["T1", "T2"]
    assert third["earlier_case_ids"] == ["Q2:P6:Q6", "Q2:P6:Q7"]


PEOPLE = [item(name) for name in ("Q6", "Q7", "Q8", "Q9")]


def world(**leaders: str) -> list[Json]:
    return [*PEOPLE, *(item(town, about("P6", leader)) for town, leader in sorted(leaders.items()))]


def test_a_probe_expires_in_the_first_later_timestep_that_changes_its_fact(tmp_path: Path) -> None:
    states = [
        world(Q1="Q7", Q2="Q7", Q3="Q7", Q4="Q7"),
        world(Q1="Q8", Q2="Q7", Q3="Q7", Q4="Q7"),
        world(Q1="Q8", Q2="Q8", Q3="Q7"),
        world(Q1="Q8", Q2="Q9", Q3="Q8"),
    ]
    snapshots = [
        load(tmp_path / "home", write_dump(tmp_path / f"{date}.json", state), date)
        for date, state in zip(DATES, states, strict=True)
    ]
    pairs = list(pairwise(snapshots))
    # Q4 is missing from later snapshots, which says nothing of what it had.
    probes = probes_of((0, "Q2"), (0, "Q3"), (0, "Q4"), (2, "Q2"))
    cases = edits((0, "Q1", "Q8"), (1, "Q2", "Q8"), (2, "Q2", "Q9"))
    found = find_expiring_probes(probes, cases, NAMES, pairs, spill=tmp_path / "spill").to_pylist()
    assert [(row["timestep"], row["subject"], row["expires"], row["expires_by_case_id"]) for row in found] == [
        ("T1", "Q2", "T2", "Q2:P6:Q8"),
        ("T1", "Q3", "T3", None),
    ]
    only = find_expiring_probes(probes, cases, NAMES, pairs[:1], spill=tmp_path / "spill")
    assert only.num_rows == 0


@pytest.mark.slow
def test_a_stream_of_edits_has_the_bytes_of_its_timesteps_and_links_them(
    tmp_path: Path,
) -> None:
    states = [
        world(Q1="Q7", Q2="Q6"),
        world(Q1="Q8", Q2="Q6"),
        world(Q1="Q9", Q2="Q7"),
    ]
    home = tmp_path / "home"
    for date, state in zip(DATES, states, strict=False):
        load(home, write_dump(tmp_path / f"{date}.json", state), date)
    reported: list[tuple[str, bool]] = []
    stream = Home(home).export_all(engine="store", on_timestep=lambda name, kept: reported.append((name, kept)))
    first, second = "20210104_20220103", "20220103_20230102"
    assert reported == [(first, False), (second, False)]
    alone = Home(home).export_timestep(*DATES[:2], out=tmp_path / "alone", engine="store")
    assert hashes(stream.timesteps()[0].folder) == hashes(alone.folder)
    again = {row["case_id"]: row["earlier_case_ids"] for row in stream.table("edited_again").to_pylist()}
    assert again == {"Q1:P6:Q9": ["Q1:P6:Q8"]}
    (probe,) = stream.table("expiring_probes").to_pylist()
    assert (probe["timestep"], probe["case_id"], probe["expires"]) == (first, "Q1:P6:Q8", second)
    assert (probe["subject"], probe["object"], probe["expires_by_case_id"]) == ("Q2", "Q6", "Q2:P6:Q7")

    # With other settings nothing is kept in silence, and nothing replaced without being asked for.
    with pytest.raises(TimestepError, match="made with other settings"):
        Home(home).export_all(engine="store", kinds=["update"])
    reported.clear()
    Home(home).export_all(
        engine="store", kinds=["update"], overwrite=True, on_timestep=lambda name, kept: reported.append((name, kept))
    )
    Home(home).export_all(
        engine="store", kinds=["update"], on_timestep=lambda name, kept: reported.append((name, kept))
    )
    assert [kept for _, kept in reported] == [False, False, True, True]

    # A stream behind a link is written there, and finds its timesteps.
    moved = stream.folder.rename(tmp_path / "moved")
    stream.folder.symlink_to(moved)
    linked = Home(home).export_all(engine="store", kinds=["update"])
    assert stream.folder.readlink() == moved
    assert [step.name for step in linked.timesteps()] == [first, second]


def test_a_timestep_in_the_current_folder_is_found_from_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_timestep(tmp_path / "here", towns=range(2))
    monkeypatch.chdir(tmp_path / "here")
    here = Timestep.open(".")
    here.manifest["profile"] = "wikibigedit"
    snapshot = Snapshot(tmp_path, {"date": DATES[0]})
    stream = write_stream([here], [(snapshot, snapshot)], tmp_path / "stream")
    assert [step.folder for step in stream.timesteps()] == [tmp_path / "here"]


def test_a_folder_that_is_no_stream_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="export-timestep --all"):
        Stream.open(tmp_path)
