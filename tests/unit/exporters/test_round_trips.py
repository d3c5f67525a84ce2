"""Exports of kgedit are read back as the same cases."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.small_timestep import write_timestep

from kgedit.exporters import EXPORTERS
from kgedit.records.cases import Case, Fact
from kgedit.resources import data_folder
from kgedit.timesteps.edit_files import EDIT_FORMATS, EditFile
from kgedit.timesteps.tables import CASES, CHANGED, LOCALITY, TABLES
from kgedit.timesteps.timestep import Timestep
from kgedit.wording.catalogues import language_codes, read_catalogue

NAMES = [name for name in EXPORTERS if name in EDIT_FORMATS and name != "unke"]
"""UnKE's form has one edit per item, and one answer per question."""
KINDS = ["update", None, "backfill", None]


@pytest.fixture
def timestep(tmp_path: Path) -> Timestep:
    return write_timestep(tmp_path / "20200101_20210101", towns=range(4))


def _told(case: Case, *, cloze: bool) -> dict[str, object]:
    """What a case says, without what no form has a place for: labels of facts beside the edit."""
    probes = [
        (
            probe.axis,
            probe.question,
            probe.answers,
            [(fact.subject, fact.property, fact.object) for fact in probe.facts],
            probe.second_case_id,
        )
        for probe in case.probes
    ]
    plain = dataclasses.asdict(dataclasses.replace(case, probes=(), cloze=case.cloze if cloze else ""))
    return plain | {"probes": sorted(probes)}


def test_forms_that_are_written_and_read_have_the_same_name() -> None:
    assert {"easyedit", "wikibigedit"} <= set(NAMES)


@pytest.mark.parametrize(("name", "cloze"), [("easyedit", True), ("wikibigedit", False)])
def test_an_export_is_read_back_as_the_same_cases(name: str, cloze: bool, timestep: Timestep) -> None:
    edits = EditFile.open(EXPORTERS[name](timestep))
    assert (edits.edit_format.name, edits.name) == (name, timestep.name)
    assert (edits.unused, edits.left_out) == ((), {})
    written = [_told(case, cloze=cloze) for case in timestep.cases()]
    assert [_told(case, cloze=cloze) for case in edits.cases()] == written
    assert len(written[0]["probes"]) == 5  # type: ignore[arg-type]


def test_easyedits_form_keeps_random_neighbours_apart(timestep: Timestep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the nearest neighbour is drawn at random as well."""

    def with_random(case: Case) -> Case:
        near = next(probe for probe in case.probes if probe.axis == "locality")
        drawn = dataclasses.replace(near, question="Which water does Mora lie at?", answers=("Siljan",))
        also = [dataclasses.replace(probe, axis="random_locality") for probe in (drawn, near)]
        return dataclasses.replace(case, probes=(*case.probes, *also))

    cases = [with_random(case) for case in timestep.cases()]
    monkeypatch.setattr(Timestep, "cases", lambda _: iter(cases))
    edits = EditFile.open(EXPORTERS["easyedit"](timestep))
    assert [_told(case, cloze=True) for case in edits.cases()] == [_told(case, cloze=True) for case in cases]
    assert not edits.unused


@pytest.mark.parametrize("name", ["easyedit", "wikibigedit", "wikifactdiff"])
def test_a_neighbour_keeps_its_relation_and_that_it_changed(name: str, timestep: Timestep) -> None:
    path = timestep.folder / "locality.parquet"
    rows = [row | {"basis": CHANGED} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["locality"]), path)
    exported = EditFile.open(EXPORTERS[name](Timestep.open(timestep.folder)))
    near = [probe for case in exported.cases() for probe in case.probes if probe.axis == "locality"]
    assert [(probe.facts[0].property, probe.changed) for probe in near] == [("P206", True)] * len(rows)
    assert not exported.unused


@pytest.mark.parametrize("name", ["wikibigedit", "wikifactdiff"])
def test_kinds_of_change_are_read_back(name: str, timestep: Timestep) -> None:
    rows = [row | {"kind": kind} for row, kind in zip(timestep.table("cases").to_pylist(), KINDS, strict=True)]
    pq.write_table(pa.Table.from_pylist(rows, schema=CASES), timestep.folder / "cases.parquet")
    path = EXPORTERS[name](Timestep.open(timestep.folder))
    assert [(case.kind, details.kind) for case, details in EditFile.open(path).details()] == [(k, k) for k in KINDS]
    assert name != "wikifactdiff" or path.read_text(encoding="utf-8").count('"kind"') == 2


def test_every_form_says_by_which_other_names_an_answer_is_accepted(timestep: Timestep) -> None:
    rows = timestep.table("locality").to_pylist()
    rows[0]["object_aliases"] = ["By river"]
    pq.write_table(pa.Table.from_pylist(rows, schema=LOCALITY), timestep.folder / "locality.parquet")
    for name in NAMES:
        case = next(iter(EditFile.open(EXPORTERS[name](timestep)).cases()))
        answers = {probe.axis: probe.answers for probe in case.probes}
        assert answers["update"] == answers["rephrase"] == ("Olof Gren", "Olof Gren the Elder"), name
        assert answers["locality"] == ("Byälven", "By river"), name


@pytest.mark.parametrize("name", ["easyedit", "wikibigedit"])
def test_old_answers_are_known_facts_of_what_is_read_back(name: str, timestep: Timestep) -> None:
    edits = EditFile.open(EXPORTERS[name](timestep))
    known = {(fact.fact.subject, fact.fact.property, fact.fact.object): fact.answer for fact in edits.known_facts()}
    assert known["Q100", "P6", "Q10"] == "Nils Ek"
    assert known["Q100", "P206", "Q30"] == "Byälven"
    assert all(isinstance(fact.fact, Fact) for fact in edits.known_facts())


def test_easyedits_own_fields_are_where_its_data_sets_look_for_them(timestep: Timestep) -> None:
    row = json.loads(EXPORTERS["easyedit"](timestep).read_text(encoding="utf-8"))[0]
    assert list(row)[:7] == [
        "subject",
        "prompt",
        "target_new",
        "ground_truth",
        "rephrase_prompt",
        "locality",
        "portability",
    ]
    assert row["ground_truth"] == "Nils Ek"
    near = row["locality"]["Relation_Specificity"][0]
    assert (near["prompt"], near["ground_truth"][0][0]) == ("Which water does Arvika lie at?", "Byälven")
    assert row["portability"]["Reasoning"][0]["ground_truth"][0][0] == "Eksjö"


def test_a_second_hop_that_is_a_case_of_the_file_is_named_again(timestep: Timestep) -> None:
    path = EXPORTERS["wikibigedit"](timestep)
    rows = json.loads(path.read_text(encoding="utf-8"))
    rows[0]["mhop_ids"][1] = [rows[1][name] for name in ("subject_id", "relation_id", "object_id")]
    rows[0]["object_id"] = rows[1]["subject_id"]
    path.write_text(json.dumps(rows), encoding="utf-8")
    first = next(EditFile.open(path).cases())
    assert [probe.second_case_id for probe in first.probes if probe.axis == "mhop"] == [rows[1]["case_id"]]


@pytest.mark.parametrize("name", ["easyedit", "wikibigedit", "wikifactdiff"])
def test_every_row_says_if_the_snapshots_are_projections(name: str, timestep: Timestep) -> None:
    def rows() -> list[dict[str, object]]:
        text = EXPORTERS[name](Timestep.open(timestep.folder)).read_text(encoding="utf-8")
        return [json.loads(line.rstrip(",")) for line in text.splitlines() if line.startswith("{")]

    plain = rows()
    assert not any("projected" in row for row in plain)
    manifest = timestep.manifest | {"snapshots": [{"date": "2020-01-01", "projected": {}}, {"date": "2021-01-01"}]}
    (timestep.folder / "timestep.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert rows() == [row | {"projected": True} for row in plain]
    edits = EditFile.open(timestep.folder / {"wikifactdiff": "wikifactdiff.jsonl"}.get(name, f"{name}.json"))
    (unused,) = (field for field in edits.unused if field.path == "projected")
    assert unused.reason == "it describes how the snapshots were made"


def test_the_changes_of_an_item_are_a_paragraph_with_a_question_about_each(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "20200101_20210101", towns=range(3))
    cases = timestep.table("cases").to_pylist()
    cases[1] |= {name: cases[0][name] for name in ("subject", "subject_label")} | {"old_answers": ["A", "B."]}
    cases[2] |= {"old_answers": [], "cloze": "The mayor of Falun is"}
    rows = [row | {"statement": None, "name": None} for row in cases]
    pq.write_table(pa.Table.from_pylist(rows, schema=CASES), timestep.folder / "cases.parquet")
    near = timestep.table("locality").to_pylist()
    near[2] |= {"basis": CHANGED}
    pq.write_table(pa.Table.from_pylist(near, schema=LOCALITY), timestep.folder / "locality.parquet")
    path = EXPORTERS["unke"](timestep)
    edits = EditFile.open(path)
    assert (edits.edit_format.name, edits.unused, edits.left_out) == ("unke", (), {})
    both, single = edits.cases()
    label, answers = cases[0]["subject_label"], [case["object_label"] for case in cases]
    assert both.question == f"What has changed about {label} since 2020?"
    assert both.answer == (
        f"{cases[0]['cloze']} {answers[0]}; before, it was {cases[0]['old_answers'][0]}. "
        f"{cases[1]['cloze']} {answers[1]}; before, it was A or B."
    )
    assert single.answer == f"The mayor of Falun is {answers[2]}."
    stated = [(probe.question, probe.answers) for probe in both.probes if probe.axis == "consequence"]
    assert stated == [(case["question"], (case["object_label"],)) for case in cases[:2]]
    assert len([probe for probe in both.probes if probe.axis == "rephrase"]) == 2
    unchanged = [
        [(probe.question, probe.answers) for probe in item.probes if probe.axis == "locality"]
        for item in (both, single)
    ]
    assert unchanged == [[(row["question"], (row["object_label"],)) for row in near[:2]], []]


@pytest.mark.parametrize("code", language_codes())
def test_every_language_of_questions_has_words_for_paragraphs(code: str) -> None:
    words = read_catalogue(data_folder("prompts") / "paragraphs" / f"{code}.yaml")
    asked = [words["question"], *words["rephrase"]]
    assert len(set(asked)) == 3
    assert all(text.count("{name}") == text.count("{year}") == 1 and text.endswith(("?", "？")) for text in asked)
    assert words["replaced"].format(sentence="A is B", old=words["or"].join(["C", "D"])).endswith((" D.", "D。"))
