"""An audit finds every fault in a file, and only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from world.audited import FAULTS, RIGHT, row, snapshots
from world.dumps import quantity_value, snak, statement, time_value
from world.edit_files import Json, write_json
from world.two_days import item, two_snapshots

from kgedit.errors import TimestepError
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.audit import Audit, audit_edits
from kgedit.timesteps.audit.checks import CHECKS, LOCALITY, TWO_HOPS
from kgedit.timesteps.edit_files import open_edits


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Snapshot]:
    return snapshots(tmp_path_factory.mktemp("world"))


def _audit(window: tuple[Snapshot, Snapshot], folder: Path, *rows: Json) -> Audit:
    spill = folder / "spill"
    audit = audit_edits(open_edits(write_json(folder / "edits.json", *rows)), *window, spill=spill)
    assert not spill.exists()
    return audit


def _rows(audit: Audit) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = audit.rows.to_pylist()
    return found


def test_planted_faults_of_every_class_are_found_and_only_those(
    window: tuple[Snapshot, Snapshot], tmp_path: Path
) -> None:
    audit = _audit(window, tmp_path, *RIGHT.values(), *FAULTS.values())
    rows = _rows(audit)
    verdicts = {reason: verdict for verdict, reason, _ in (*CHECKS, *LOCALITY, *TWO_HOPS)}

    assert [one["reasons"] for one in rows] == [[]] * len(RIGHT) + [[reason] for reason in FAULTS]
    assert [one["verdict"] for one in rows] == ["valid"] * len(RIGHT) + [verdicts[reason] for reason in FAULTS]
    assert all(one["reason"] == (one["reasons"] or [None])[0] for one in rows)
    assert {reason for reason in verdicts if reason not in FAULTS} == {
        # These come of names without ids, or stand beside a fault of the edit.
        "an object without a label may be the answer",
        "a literal that is written otherwise may be the answer",
        "locality: its fact was not found",
        "two hops: the edit itself was not found",
        "two hops: the second fact was not found",
    }


def test_counts_are_by_reason_with_wilsons_intervals(window: tuple[Snapshot, Snapshot], tmp_path: Path) -> None:
    rows = [RIGHT["a new value"]] * 3 + [FAULTS["deprecated"], FAULTS["the subject is not in the older snapshot"]]
    counts = {
        (one["part"], one["verdict"], one["reason"]): one for one in _audit(window, tmp_path, *rows).counts.to_pylist()
    }
    assert {key: one["rows"] for key, one in counts.items()} == {
        ("row", "valid", None): 3,
        ("row", "invalid", None): 1,
        ("row", "undecidable", None): 1,
        ("edit", "invalid", "deprecated"): 1,
        ("edit", "undecidable", "the subject is not in the older snapshot"): 1,
    }
    valid = counts["row", "valid", None]
    assert (valid["of"], valid["share"]) == (5, 0.6)
    assert (valid["low"], valid["high"]) == pytest.approx((0.2307, 0.8824), abs=1e-4)


def test_valid_rows_are_counted_by_their_kind_of_change(window: tuple[Snapshot, Snapshot], tmp_path: Path) -> None:
    rows = [RIGHT["a new value"]] * 3 + [row("Q100", "Q201"), FAULTS["deprecated"]]
    audit = _audit(window, tmp_path, *rows)
    kinds = {one["kind"]: one for one in audit.kinds.to_pylist()}

    assert [one["kind"] for one in _rows(audit)] == ["backfill"] * 3 + ["update", None]
    assert {kind: (one["rows"], one["of"]) for kind, one in kinds.items()} == {"backfill": (3, 4), "update": (1, 4)}
    assert list(kinds) == ["backfill", "update"]
    assert kinds["backfill"]["share"] == 0.75
    assert kinds["backfill"]["low"] < 0.75 < kinds["backfill"]["high"]
    assert kinds["backfill"]["confidence"] == _rows(audit)[0]["kind_confidence"] > 0
    assert audit.as_json()["kinds"] == audit.kinds.to_pylist()


def test_labels_are_resolved_where_a_file_has_no_ids(window: tuple[Snapshot, Snapshot], tmp_path: Path) -> None:
    asked = {"mhop": "Where was the mayor of Arvika born?", "mhop_ans": "Hjo"}
    rows = [
        row("Q100", "Q201", ids=False, **asked),
        row("Q102", "Q203", ids=False),
        row("Q100", "Q201", ids=False, subject="Arvika stad", ans="A. Holm"),
        row("Q113", "Q201", ids=False),
        row("Q100", "Q201", ids=False, subject="Nowhere", update="Who is the mayor there?"),
        row("Q100", "Q201", ids=False, loc="Who is the mayor of Sala these days?", loc_ans="Eva Berg"),
        row("Q100", "Q201", ids=False, loc="Who is the mayor of Borgholm?", loc_ans="Per Lund"),
        row("Q109", "Q203", ids=False, mhop="Where was the mayor of Piteå born?", mhop_ans="Falun"),
        row("Q109", "Q203", ids=False, mhop="Where was the mayor of Piteå born?", mhop_ans="Sala"),
        row("Q115", "Q203", ids=False, ans="Somebody new"),
        row("Q113", "Q201", ids=False, mhop="Where was the mayor of Vara born?", mhop_ans="Hjo"),
    ]
    found = _rows(_audit(window, tmp_path, *rows))
    # Two entities have the name Arvika; only one of them has the fact.
    assert (found[0]["subject"], found[0]["property"], found[0]["object"]) == ("Q100", "P6", "Q201")
    assert [one["reasons"] for one in found] == [
        [],
        ["deprecated"],
        [],
        ["no main statement says so"],
        ["no entity of the snapshots is the subject"],
        ["locality: its fact was not found"],
        ["locality: it changed in the window"],
        ["two hops: the old value gives the same answer"],
        ["two hops: the second fact was not found"],
        ["an object without a label may be the answer"],
        ["no main statement says so", "two hops: the edit itself was not found"],
    ]
    assert [one["verdict"] for one in found].count("undecidable") == 4


def test_longer_chains_and_those_with_the_edit_in_their_midst_are_counted_and_not_judged(
    window: tuple[Snapshot, Snapshot], tmp_path: Path
) -> None:
    edit, second = ["Q100", "P6", "Q201"], ["Q201", "P19", "Q301"]

    def chain(*facts: list[str]) -> Json:
        asked = {"prompt": "Where was Arvika's mayor born?", "ground_truth": "Hjo", "ids": list(facts)}
        ids = dict(zip(("subject_id", "relation_id", "object_id"), edit, strict=True))
        plain = {"prompt": "Who is the mayor of Arvika?", "target_new": "Olof Gren", "subject": "Arvika"}
        return plain | ids | {"portability": {"Reasoning": [asked]}}

    chains = [chain(edit, second), chain(edit, second, ["Q301", "P17", "Q34"]), chain(second, edit)]
    audit = _audit(window, tmp_path, *chains)
    assert [one["two_hops"] for one in _rows(audit)] == ["valid", None, None]
    assert [one["verdict"] for one in _rows(audit)] == ["valid"] * 3
    assert audit.not_audited == {"multi-hop questions of more than two facts, or whose first fact is not the edit": 2}


@pytest.mark.slow
def test_a_literal_is_found_by_its_value(window: tuple[Snapshot, Snapshot], tmp_path: Path) -> None:
    def trosa(value: str, old: str = "900") -> Json:
        things = [{"label": value, "description": "Quantity", "decision": "new"}]
        return {
            "subject": {"id": "Q112", "label": "Trosa"},
            "relation": {"id": "P1082", "label": "population"},
            "update_prompt": "The population of Trosa is ____",
            "objects": [*things, {"label": old, "description": "Quantity", "decision": "obsolete"}],
        }

    written = ("+950", "950", "950 inhabitants", "960", "nine hundred and fifty")
    found = _rows(_audit(window, tmp_path, *map(trosa, written)))
    assert [one["verdict"] for one in found] == ["valid", "valid", "valid", "invalid", "undecidable"]
    assert found[-1]["reason"] == "a literal that is written otherwise may be the answer"
    (signed,) = _rows(_audit(window, tmp_path, trosa("-950")))
    assert signed["verdict"] == "invalid", "without punctuation it would be 950"
    olds = _rows(_audit(window, tmp_path, *(trosa("950", old) for old in ("+900", "900 inhabitants", "901"))))
    assert [one["reason"] for one in olds] == [None, None, "the old answer did not hold at the older date"]


@pytest.mark.parametrize("written", ["2022-03-12", "12 March 2022", "March 12, 2022", "12-03-2022"])
@pytest.mark.slow
def test_a_date_may_be_written_as_people_do(written: str, window: tuple[Snapshot, Snapshot], tmp_path: Path) -> None:
    bare = {"subject": "Uddevalla", "update": "When did Uddevalla burn?", "ans": written, "tag": "new"}
    (right, wrong) = _rows(_audit(window, tmp_path, bare, bare | {"ans": "13 March 2022"}))
    assert (right["verdict"], right["property"]) == ("valid", "P571")
    assert wrong["reason"] == "no main statement says so"


def _quantity(amount: str, unit: str | None = None) -> Json:
    entity = "1" if unit is None else f"http://www.wikidata.org/entity/{unit}"
    return statement(snak("P2043", quantity_value(amount, entity)))


def _time(text: str, precision: int) -> Json:
    return statement(snak("P571", time_value(f"{text}T00:00:00Z", precision)))


LITERALS: dict[str, tuple[Json, dict[str, str]]] = {
    "Aa": (
        _quantity("+5", "Q12"),
        {"5 metres": "valid", "5 m": "valid", "5": "valid", "5 kilometres": "undecidable", "6 metres": "invalid"},
    ),
    "Bb": (_quantity("+1234567.8901234"), {"1,234,567.890123": "valid", "1,234,567.8902": "invalid"}),
    "Cc": (
        _time("-0044-00-00", 9),
        {"44 BC": "valid", "44 B.C.": "valid", "-0044": "valid", "44 AD": "invalid", "44": "invalid"},
    ),
    "Dd": (_time("+0044-00-00", 9), {"44": "valid", "AD 44": "valid", "44 BC": "invalid"}),
    "Ee": (
        _time("+1999-05-00", 10),
        {
            "May 1999": "valid",
            "05-1999": "valid",
            "1 May 1999": "undecidable",
            "May 5": "undecidable",
            "1 June 1999": "invalid",
        },
    ),
    "Ff": (_time("+1990-00-00", 8), {"1990s": "valid", "the 1990s": "valid", "1994": "undecidable"}),
    "Gg": (
        _time("-0044-03-15", 11),
        {"15 March 44 BC": "valid", "March 15, 44 BCE": "valid", "the Ides of March, 44 BC": "undecidable"},
    ),
}
"""Label of a town -> its only statement, and verdicts on answers."""


@pytest.mark.slow
def test_answers_without_ids_are_judged_by_era_unit_and_precision(tmp_path: Path) -> None:
    towns = {name: f"Q{number}" for number, name in enumerate(LITERALS, start=100)}
    metre = item("Q12", label="metre", aliases=("m",))
    before = [metre, *(item(name, label=label) for label, name in towns.items())]
    after = [metre, *(item(name, LITERALS[label][0], label=label) for label, name in towns.items())]
    rows = [
        {"subject": town, "update": f"What is known of {town}?", "ans": said, "tag": "new"}
        for town, (_, verdicts) in LITERALS.items()
        for said in verdicts
    ]
    found = _rows(_audit(two_snapshots(tmp_path, before, after), tmp_path, *rows))
    judged: dict[str, dict[str, str]] = {town: {} for town in LITERALS}
    for asked, one in zip(rows, found, strict=True):
        judged[asked["subject"]][asked["ans"]] = one["verdict"]
    assert judged == {town: verdicts for town, (_, verdicts) in LITERALS.items()}


def test_several_values_are_no_fault_where_the_form_lists_them(
    window: tuple[Snapshot, Snapshot], tmp_path: Path
) -> None:
    nora = {
        "subject": {"id": "Q107", "label": "Nora"},
        "relation": {"id": "P6", "label": "mayor"},
        "update_prompt": "The mayor of Nora is ____",
        "objects": [
            {"id": name, "label": label, "decision": "new"}
            for name, label in (("Q203", "Eva Berg"), ("Q204", "Jan Sjö"))
        ],
    }
    audit = _audit(
        window, tmp_path, nora, nora | {"objects": [{"id": "Q200", "label": "Nils Ek", "decision": "obsolete"}]}
    )
    assert [one["verdict"] for one in _rows(audit)] == ["valid", "valid"]
    assert audit.not_audited == {"archived facts, which a run takes with --archive-as only": 1}


@pytest.mark.slow
def test_an_audit_depends_on_nothing_but_the_file_and_the_snapshots(
    window: tuple[Snapshot, Snapshot], tmp_path: Path
) -> None:
    rows = [*RIGHT.values(), *FAULTS.values()]
    first, again = (_audit(window, tmp_path, *rows) for _ in range(2))
    assert first.rows.equals(again.rows)
    assert first.counts.equals(again.counts)
    assert isinstance(first.as_json()["rows"], list)
    assert pa.types.is_int64(first.counts.schema.field("rows").type)


def test_dates_in_the_wrong_order_are_refused(window: tuple[Snapshot, Snapshot], tmp_path: Path) -> None:
    old, new = window
    with pytest.raises(TimestepError, match="2023-02-27 is not before 2021-01-04"):
        _audit((new, old), tmp_path, *RIGHT.values())
