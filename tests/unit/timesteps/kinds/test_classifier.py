"""The optional classifier of kinds: its training data, and the kinds that the rules decide."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from world.dumps import Json
from world.two_days import about, item, two_snapshots

from kgedit.errors import MissingExtraError, TimestepError
from kgedit.timesteps.kinds import (
    judge_with_classifier,
    read_labelled,
    signals_of_known_values,
    train_classifier,
)
from kgedit.timesteps.kinds.signals import VALUES, signals_of_values


def labelled_rows() -> list[dict[str, str]]:
    """Numbers that double are updates; numbers that get one more digit are refinements."""
    rows = []
    for number in range(10, 40):
        for kind, new in (("update", f"{2 * number}"), ("refinement", f"{number}.3")):
            values = {"value_type": "quantity", "old_text": f"{number}", "new_text": new}
            rows.append({"subject": f"Q{number}", "property": "P2046", "kind": kind, **values})
    return rows


def as_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_jsonl(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def signals_of(*rows: dict[str, str]) -> pa.Table:
    return signals_of_values(
        pa.Table.from_pylist([{"subject": "Q1", "property": "P2046", **row} for row in rows], VALUES)
    )


DOUBLED = {"value_type": "quantity", "old_text": "50", "new_text": "100"}
LONGER = {"value_type": "quantity", "old_text": "50", "new_text": "50.3"}


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    rows = labelled_rows()
    read = read_labelled(as_csv(tmp_path / "a.csv", rows))
    assert read.equals(read_labelled(as_jsonl(tmp_path / "a.jsonl", rows)))
    assert read.num_rows == 60
    assert read["old_text"][0].as_py() == "10"


def test_it_learns_what_the_file_shows_and_training_again_gives_the_same(tmp_path: Path) -> None:
    labelled = read_labelled(as_csv(tmp_path / "a.csv", labelled_rows()))
    signals = signals_of(DOUBLED, LONGER)
    classifier = train_classifier(labelled, seed=1)
    judged = judge_with_classifier(classifier, signals)
    assert judged["kind"].to_pylist() == ["update", "refinement"]
    assert judged["rule"].to_pylist() == ["classifier", "classifier"]
    assert min(judged["confidence"].to_pylist()) > 0.5
    assert np.array_equal(train_classifier(labelled, seed=1).probabilities(signals), classifier.probabilities(signals))


@pytest.mark.parametrize(
    ("signal", "row", "kind", "rule"),
    [
        ("starts_before", DOUBLED, "backfill", "late entry"),
        ("starts_before", LONGER, "refinement", "classifier"),
        ("starts_in_window", LONGER, "update", "begins in the window"),
    ],
)
@pytest.mark.slow
def test_dates_of_the_statements_still_count(
    tmp_path: Path, signal: str, row: dict[str, str], kind: str, rule: str
) -> None:
    classifier = train_classifier(read_labelled(as_csv(tmp_path / "a.csv", labelled_rows())))
    signals = signals_of(row)
    dated = signals.set_column(signals.schema.get_field_index(signal), signal, pa.array([True]))
    [judged] = judge_with_classifier(classifier, dated).to_pylist()
    assert (judged["kind"], judged["rule"]) == (kind, rule)


def test_a_change_without_an_old_value_is_left_to_the_rules(tmp_path: Path) -> None:
    classifier = train_classifier(read_labelled(as_csv(tmp_path / "a.csv", labelled_rows())))
    [judged] = judge_with_classifier(classifier, signals_of({"new_text": "50"})).to_pylist()
    assert judged["rule"] == "nothing known"


def test_no_changes_have_no_kinds(tmp_path: Path) -> None:
    classifier = train_classifier(read_labelled(as_csv(tmp_path / "a.csv", labelled_rows())))
    assert judge_with_classifier(classifier, signals_of(DOUBLED).slice(0, 0)).num_rows == 0


def test_meanings_are_features_where_there_is_an_embedder(tmp_path: Path) -> None:
    rows = [{**row, "value_type": "string", "old_text": "mill", "new_text": row["kind"]} for row in labelled_rows()]
    labelled = read_labelled(as_csv(tmp_path / "a.csv", rows))
    asked: list[str] = []

    def embed(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return np.eye(len(texts), 8, dtype=np.float32)

    classifier = train_classifier(labelled, embed=embed)
    assert sorted(asked) == ["mill", "refinement", "update"]
    assert classifier.probabilities(signals_of({"value_type": "string", "old_text": "a", "new_text": "b"})).shape == (
        1,
        2,
    )


def places(count: int) -> list[Json]:
    """Towns Q1000 ... in counties Q2000 ..., whose names do not distinguish them from other towns and counties."""
    towns = [item(f"Q{1000 + n}", about("P131", f"Q{2000 + n}"), label=f"Place {n}") for n in range(count)]
    return [*towns, *(item(f"Q{2000 + n}", about("P131", "Q3000"), label=f"Area {n}") for n in range(count))]


def edits_of_places(count: int) -> list[dict[str, str]]:
    """From a county to the town in it is a refinement, to a town elsewhere an update."""
    return [
        {"subject": f"Q{n}", "property": "P19", "value_type": "item", "old_text": "an area", "new_text": "a place",
         "old_object": f"Q{2000 + n}", "new_object": f"Q{1000 + town}", "kind": kind}
        for n in range(count) for kind, town in (("refinement", n), ("update", (n + 1) % count))
    ]  # fmt: skip


@pytest.mark.slow
def test_what_snapshots_say_of_labelled_values_is_learnt(tmp_path: Path) -> None:
    """The words of all edits are the same: only containment distinguishes them."""
    world = places(20)
    snapshots = two_snapshots(tmp_path, world, world)
    labelled = read_labelled(as_csv(tmp_path / "a.csv", edits_of_places(20)))
    joined = signals_of_known_values(labelled, snapshots, spill=tmp_path / "spill")
    assert joined["new_within_old"].to_pylist() == [True, False] * 20
    assert set(joined["old_text"].to_pylist()) == {"an area"}
    knowing, unknowing = (train_classifier(labelled, signals=signals) for signals in (joined, None))
    kinds = np.array(labelled["kind"].to_pylist())
    found = np.array(knowing.kinds)[knowing.probabilities(joined).argmax(axis=1)]
    assert (found == kinds).all()
    assert (unknowing.probabilities(joined)[:, 0] == 0.5).all()


def test_without_snapshots_values_are_as_in_words(tmp_path: Path) -> None:
    labelled = read_labelled(as_csv(tmp_path / "a.csv", edits_of_places(3)))
    known = signals_of_known_values(labelled, [], spill=tmp_path / "spill")
    assert known.equals(signals_of_values(labelled))


def test_what_a_labelled_row_lacks_comes_from_the_latest_snapshot(tmp_path: Path) -> None:
    before, after = two_snapshots(
        tmp_path, [item("Q1", label="Old name"), item("Q2", label="B")], [item("Q1", label="New name"), item("Q2")]
    )
    row = {"subject": "Q5", "property": "P19", "value_type": "item", "old_object": "Q1", "new_object": "Q2"}
    values = pa.Table.from_pylist([row, row | {"old_text": "As written"}], VALUES)
    for snapshots in ((before, after), (after, before)):
        known = signals_of_known_values(values, snapshots, spill=tmp_path / "spill")
        assert known["old_text"].to_pylist() == ["New name", "As written"]


PUBLISHED = '''\
entity_id,property_id,property_label,datatype,old_value,new_value,old_value_label,new_value_label,\
old_value_description,new_value_description,label,action
1,569,date of birth,time,"""+1861-12-05T00:00:00Z""","""+1861-00-00T00:00:00Z""",NULL,NULL,NULL,NULL,unrefinement,UPDATE
2,6,head,wikibase-entityid,"""Q5""","""Q6""",Ada Holm,Olof Gren,mayor,NULL,property_value_update,UPDATE
3,2046,area,quantity,"""+12.53""","""+12.5""",NULL,NULL,NULL,NULL,"re_formatting, refinement",UPDATE
'''


def test_the_published_human_labelled_edits_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "edits.csv").write_text(PUBLISHED, encoding="utf-8")
    rows = read_labelled(tmp_path / "edits.csv").to_pylist()
    names = ("subject", "property", "value_type", "old_text", "new_text", "kind")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("Q1", "P569", "time", "1861-12-05", "1861", "unrefinement"),
        ("Q2", "P6", "item", "Ada Holm", "Olof Gren", "update"),
        ("Q3", "P2046", "quantity", "12.53", "12.5", "reformatting"),
    ]
    assert [(row["old_object"], row["new_object"]) for row in rows] == [(None, None), ("Q5", "Q6"), (None, None)]
    assert (rows[0]["old_precision"], rows[0]["new_precision"]) == ("11", "9")
    assert (rows[1]["old_description"], rows[1]["new_description"]) == ("mayor", None)
    (tmp_path / "edits.csv").write_text(PUBLISHED.replace("unrefinement", "vandalism"), encoding="utf-8")
    with pytest.raises(TimestepError, match=r"unknown kinds: vandalism\. Known: property_value_update"):
        read_labelled(tmp_path / "edits.csv")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "kind"} for row in labelled_rows()]
    with pytest.raises(TimestepError, match="lack the columns kind"):
        read_labelled(as_csv(tmp_path / "a.csv", rows))


def test_a_kind_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="unknown kinds: progress"):
        read_labelled(as_csv(tmp_path / "a.csv", [{**labelled_rows()[0], "kind": "progress"}]))


def test_one_kind_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="needs two or more"):
        train_classifier(read_labelled(as_csv(tmp_path / "a.csv", labelled_rows()[:1])))


def test_without_scikit_learn_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = read_labelled(as_csv(tmp_path / "a.csv", labelled_rows()))
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match=r"kgedit\[classifier\]"):
        train_classifier(labelled)
