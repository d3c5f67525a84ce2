"""Counts of describe for a timestep and for files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.edit_files import WIKIBIGEDIT, WIKIFACTDIFF, write_json
from world.small_models import save, small_model
from world.small_timestep import write_timestep

import kgedit
from kgedit.errors import TimestepError

Told = dict[tuple[str, str], tuple[float, float | None]]


def _told(path: Path, **more: str) -> Told:
    table = kgedit.describe(path, **more)
    return {(row["part"], row["name"]): (row["value"], row["share"]) for row in table.to_pylist()}


def test_a_timestep_tells_its_funnel_tags_relations_and_lengths(tmp_path: Path) -> None:
    folder = write_timestep(tmp_path / "step", towns=range(4)).folder
    manifest = {"timestep": "20200101_20210101", "funnel": {"changed": 9, "dropped": {"circular": 5}, "kept": 4}}
    (folder / "timestep.json").write_text(json.dumps(manifest), encoding="utf-8")
    result = _told(folder)

    assert result["cases", "cases"] == (4, None)
    assert {name: value for (part, name), (value, _) in result.items() if part == "probes"} == dict.fromkeys(
        ("update", "rephrase", "personas", "mhop", "locality"), 4
    )
    assert [result["dates", name][0] for name in ("from", "to")] == [20200101, 20210101]
    assert [result["funnel", name][0] for name in ("changed", "dropped: circular", "kept")] == [9, 5, 4]
    assert result["tags", "update"] == (4, 1.0)
    assert result["relations", "head of government (P6)"] == (4, 1.0)
    # Who is the mayor of Arvika?
    assert result["words of a question", "mean"] == (6, None)
    assert result["words of an answer", "most"] == (2, None)
    assert not {"scenarios", "kinds", "years", "popularity", "tokens of a question"} & {part for part, _ in result}


def test_views_and_counts_are_put_into_powers_of_ten(tmp_path: Path) -> None:
    folder = write_timestep(tmp_path / "step", towns=range(4)).folder
    cases = pq.read_table(folder / "cases.parquet")
    for name, values in {"subject_views": [0, 12, 70, 4000], "object_count": [None, 5, None, 9]}.items():
        cases = cases.set_column(cases.schema.get_field_index(name), name, pa.array(values, pa.int64()))
    pq.write_table(cases, folder / "cases.parquet")
    result = _told(folder)
    views = {name: value for (part, name), value in result.items() if part == "subject views"}
    assert views.pop("median") == (41, None)
    assert views == {
        "0": (1, 0.25), "1–9": (0, 0), "10–99": (2, 0.5), "100–999": (0, 0), "1,000–9,999": (1, 0.25)
    }  # fmt: skip
    assert result["object count", "1–9"] == (2, 1.0)
    assert not {"object views", "subject count"} & {part for part, _ in result}


def test_a_page_and_a_word_cloud_with_one_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="Two outputs have the same path"):
        kgedit.describe_page(tmp_path, html=tmp_path / "one", word_cloud=tmp_path / "one")


def test_word_clouds_are_one_file_with_the_same_bytes(tmp_path: Path) -> None:
    folder = write_timestep(tmp_path / "step", towns=range(4)).folder
    for name in ("one.svg", "other.svg"):
        assert kgedit.describe_page(folder, word_cloud=tmp_path / name) == (tmp_path / name,)
    written = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert written == (tmp_path / "other.svg").read_text(encoding="utf-8")
    shown = re.findall(r"</title>([^<]+)</text>", written)
    assert {"Arvika", "head of government", "Gren", "Ström"} <= set(shown)
    with pytest.raises(TimestepError, match="overwrite=True"):
        kgedit.describe_page(write_timestep(tmp_path / "two", towns=range(2)).folder, word_cloud=tmp_path / "one.svg")


def test_columns_that_a_profile_adds_are_described(tmp_path: Path) -> None:
    folder = write_timestep(tmp_path / "step", towns=range(4)).folder
    cases = pq.read_table(folder / "cases.parquet")
    columns = {
        "kind": ["update", "update", "backfill", None],
        "start_time": ["2021-12-08", "1999", None, "-0044-03"],
        "point_in_time": [None, "2020", "2022", None],
    }
    for name, values in columns.items():
        cases = cases.set_column(cases.schema.get_field_index(name), name, pa.array(values))
    pq.write_table(cases, folder / "cases.parquet")
    updates = {"scenario": ["AddObject"] * 3, "popularity": [1.0, 2.0, 3.0]}
    pq.write_table(pa.table(updates), folder / "updates.parquet")
    result = _told(folder)

    assert result["kinds", "update"] == (2, pytest.approx(2 / 3, abs=1e-6))
    assert [name for part, name in result if part == "years"] == ["-44", "1999", "2021", "2022"]
    assert result["years in all", "dated"] == (4, 1.0)
    assert result["years in all", "after 2000"] == (2, 0.5)
    assert result["scenarios", "AddObject"] == (3, 1.0)
    assert [result["popularity", f"decile {number}"][0] for number in (5, 10)] == [2.0, 3.0]


def test_a_file_tells_what_of_it_is_not_used_and_its_scenarios(tmp_path: Path) -> None:
    archived = WIKIFACTDIFF | {"objects": [{"id": "Q1", "label": "Nils Ek", "decision": "obsolete"}]}
    result = _told(write_json(tmp_path / "edits.json", WIKIFACTDIFF, archived))
    assert result["not used", "archived facts, which a run takes with --archive-as only"] == (1, None)
    assert result["scenarios", "ReplaceObject"] == (1, 1.0)
    assert result["popularity", "decile 10"] == (4.5, None)
    assert result["relations", "head of government (P6)"] == (1, 1.0)
    assert [result["all updates", name][0] for name in ("triples", "subjects", "relations", "objects", "updates")] == [
        *(2, 1, 1, 2, 1),
    ]
    bare = _told(write_json(tmp_path / "bare.json", WIKIBIGEDIT))
    assert bare["relations", "not named"] == (1, 1.0)
    assert not [part for part, _ in bare if part in ("dates", "funnel", "not used")]


@pytest.mark.slow
def test_tokens_are_counted_as_a_model_counts_them(tmp_path: Path) -> None:
    model = small_model()
    result = _told(write_json(tmp_path / "edits.json", WIKIBIGEDIT), model=str(save(model, tmp_path / "model")))
    assert result["tokens of a question", "most"][0] == len(model.encode(str(WIKIBIGEDIT["update"])))
    assert result["words of a question", "most"][0] == 6
