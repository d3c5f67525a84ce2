"""`kgedit build-qaedit`: a reproducible file that kgedit reads as edits, with a record of how it was made."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from world.fault_server import fault_server

from kgedit.cli import main
from kgedit.llm.contexts import read_instructions
from kgedit.store.schemas import ENTITIES
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.qaedit import asking
from kgedit.verbs.build_qaedit import PARTS

OPEN = [
    {"question": "who wrote the tide", "answer": ["Ida Moss", "I. Moss", "The Tide"]},
    {"question": "when did the old pier open", "answer": ["1901"]},
    {"question": "Who wrote The Tide?", "answer": ["Ida Moss"]},
    {"question": "what is the capital of lowick", "answer": ["Lowick"]},
    {"question": "of what", "answer": ["oak"]},
    {"question": "where is hay house located", "answer": []},
]
SIMPLE = """metadata,problem,answer
"{'topic': 'Art'}","In what year was Hay House built?",1820
"""
PLACES = [{"query": f"which county is village {number} in?", "answer": f"County {number}"} for number in range(20)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("kgedit.llm.remote.server._FIRST_WAIT", 0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open.jsonl").write_text("".join(json.dumps(row) + "\n" for row in OPEN), encoding="utf-8")
    (tmp_path / "simple.csv").write_text(SIMPLE, encoding="utf-8")
    (tmp_path / "places.json").write_text(json.dumps(PLACES), encoding="utf-8")
    return tmp_path


def build(folder: Path, *arguments: object, sources: tuple[str, ...] = ("open.jsonl", "simple.csv")) -> Result:
    given = ["build-qaedit", *(folder / name for name in sources), "--out", folder / "made.json", *arguments]
    return CliRunner().invoke(main, [str(argument) for argument in given], env={"COLUMNS": "120"})


def rows(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "made.json").read_text(encoding="utf-8")))


def provenance(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "made.provenance.json").read_text(encoding="utf-8")))


def test_questions_become_rows_with_the_fields_of_easyedits_file(folder: Path) -> None:
    shown = build(folder, "--locality", folder / "places.json", "--locality-questions", 2)

    assert shown.exit_code == 0, shown.output
    assert shown.stdout == f"{folder / 'made.json'}\n"
    tide, pier, house = rows(folder)
    drawn = tide.pop("locality")
    assert tide == {
        "id": 0,
        "source": "NQ",
        "prompt": "who wrote the tide?",
        "target": "Ida Moss",
        "subject": "tide",
        "rephrase": "Who is the writer of the tide?",
        "aliases": ["I. Moss"],
        "category": "Art & Culture",
        "subject_by": "phrase",
        "rephrase_by": "author",
        "category_by": "words",
    }
    assert len(drawn) == 2
    assert all({"query": one["loc"], "answer": one["loc_ans"]} in PLACES for one in drawn)
    assert (pier["id"], pier["subject"], house["source"], house["category_by"]) == (
        1,
        "old pier",
        "SQA",
        "topic of the source",
    )
    assert all(row["subject"] in row["prompt"] for row in rows(folder))


def test_our_own_reader_reads_what_was_written(folder: Path) -> None:
    assert build(folder, "--locality", folder / "places.json").exit_code == 0
    read = open_edits(folder / "made.json")
    for case, row in zip(read.cases(), rows(folder), strict=True):
        axes = {probe.axis: probe for probe in case.probes}
        assert (case.question, case.answer, case.fact.subject_label) == (row["prompt"], row["target"], row["subject"])
        assert axes["update"].answers == (row["target"], *row["aliases"])
        assert axes["rephrase"].question == row["rephrase"]
        assert axes["locality"].question == row["locality"][0]["loc"]
        assert case.category == row["category"]
    assert read.left_out == {}
    assert {field.path for field in read.unused} == {"category_by", "rephrase_by", "subject_by"}


def test_what_was_left_out_and_done_lies_beside_the_file(folder: Path) -> None:
    shown = build(folder)
    reported = provenance(folder)
    assert reported["left_out"] == {
        "no subject found": 1,
        "the question gives its answer away": 1,
        "the same question twice": 1,
    }
    first = reported["sources"][0]
    assert (first["file"], first["form"], first["rows"], first["usable"]) == ("open.jsonl", "NQ-open", 6, 5)
    assert first["sha256"] == hashlib.sha256((folder / "open.jsonl").read_bytes()).hexdigest()
    assert reported["sha256"] == hashlib.sha256((folder / "made.json").read_bytes()).hexdigest()
    assert reported["rows"] == 3 == sum(reported["categories"].values()) == sum(reported["done"]["subject"].values())
    assert str(folder) not in json.dumps(reported)
    assert "left out: no answer: 1" in shown.stderr
    assert "No locality questions" in shown.stderr


def test_the_same_sources_give_the_same_bytes_and_another_seed_other_locality(folder: Path) -> None:
    places = ("--locality", folder / "places.json")
    made = []
    for seed in (0, 0, 1):
        assert build(folder, *places, "--seed", seed, "--overwrite").exit_code == 0
        made.append(((folder / "made.json").read_bytes(), (folder / "made.provenance.json").read_bytes()))
    assert made[0] == made[1] != made[2]
    drawn = [json.loads(rows_) for rows_, _ in made[1:]]
    assert [{**row, "locality": []} for row in drawn[0]] == [{**row, "locality": []} for row in drawn[1]]


def test_a_file_is_not_replaced_unasked_and_a_wrong_source_names_the_forms(folder: Path) -> None:
    assert build(folder).exit_code == 0
    again = build(folder)
    assert (again.exit_code, "--overwrite" in again.stderr) == (1, True)
    (folder / "text.txt").write_text("hello\n", encoding="utf-8")
    wrong = build(folder, "--overwrite", sources=("text.txt",))
    assert wrong.exit_code == 1
    assert "SimpleQA: CSV with the columns problem and answer" in wrong.stderr
    nothing = build(folder, "--overwrite", "--limit", 0)
    assert nothing.exit_code == 2


def test_names_of_a_snapshot_say_what_a_question_is_about(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(folder / "home"))
    snapshot = folder / "home" / "snapshots" / "20240101"
    snapshot.mkdir(parents=True)
    columns = {name: pa.nulls(1, ENTITIES.field(name).type) for name in ENTITIES.names}
    columns |= {"id": ["Q7"], "kind": ["item"], "label": ["The Old Pier"], "aliases": [[]]}
    pq.write_table(pa.table(columns, schema=ENTITIES), snapshot / "entities.parquet")
    (snapshot / "manifest.json").write_text('{"date": "2024-01-01", "format": 2, "facts": 0}', encoding="utf-8")

    assert build(folder, "--names", "2024-01-01").exit_code == 0

    pier = rows(folder)[1]
    assert (pier["subject"], pier["subject_id"], pier["subject_by"]) == ("the old pier", "Q7", "name")
    assert provenance(folder)["names"] == ["2024-01-01"]
    missing = build(folder, "--names", "2024-01-02", "--overwrite")
    assert (missing.exit_code, "No snapshot of 2024-01-02" in missing.stderr) == (1, True)


def helper(message: str) -> str:
    """A model that knows subjects and topics, and rephrases questions well, badly and not at all."""
    question = json.loads(message.rpartition("Question: ")[2].partition("\n")[0])
    if message.endswith("Subject:"):
        return "the tide" if "tide" in question else "The Old Pier"
    if message.endswith("Topic:"):
        return "society & humanities." if "tide" in question else "Fishing"
    return "Whose work is the tide?" if "tide" in question else question.upper()


def test_a_model_does_what_it_can_and_the_rules_do_the_rest(folder: Path) -> None:
    asked = ("--model", "m", *(part for name in ("subject", "rephrase", "category") for part in ("--model-does", name)))
    with fault_server(helper) as server:
        shown = build(folder, *asked, "--model-url", server.url)
        assert shown.exit_code == 0, shown.output
        assert server.paid.total() == 15, "five questions, three parts"
        first = (folder / "made.json").read_bytes()
        assert build(folder, *asked, "--model-url", server.url, "--overwrite").exit_code == 0
        assert server.paid.total() == 15, "every reply is in the cache"
    assert (folder / "made.json").read_bytes() == first
    tide, pier = rows(folder)[:2]
    assert (tide["subject"], tide["rephrase"], tide["category"]) == (
        "the tide",
        "Whose work is the tide?",
        "Society & Humanities",
    )
    assert {tide[f"{part}_by"] for part in ("subject", "rephrase", "category")} == {"model"}
    assert (pier["subject"], pier["subject_by"], pier["rephrase_by"]) == ("old pier", "phrase", "time it did")
    assert provenance(folder)["model"]["kept"] == {
        "category: the reply is not a category": 4,
        "rephrase: the reply repeats the question": 4,
        "subject: the reply is not part of the question": 4,
    }
    assert "left to the rules: subject: the reply is not part of the question: 4" in shown.stderr


def test_the_users_own_instructions_are_sent_and_recorded(folder: Path, tmp_path: Path) -> None:
    own, reported = tmp_path / "prompts", set()
    own.mkdir()
    (own / "rephrase.txt").write_text("Say it in your words.\nQuestion: {question}", encoding="utf-8")

    def noted(message: str) -> str:
        reported.add(message.split("\n", maxsplit=1)[0])
        return helper(message)

    with fault_server(noted) as server:
        asked = ("--model", "m", "--model-does", "rephrase", "--model-url", server.url, "--prompts", own)
        assert build(folder, *asked).exit_code == 0
    assert reported == {"Say it in your words."}
    recorded = provenance(folder)["model"]["prompts"]
    assert recorded == {"rephrase": read_instructions("qaedit", own).sha256("rephrase")}


def test_a_reply_that_never_comes_leaves_a_row_to_the_rules(folder: Path) -> None:
    with fault_server(helper, lambda message, _: "not JSON" if "the tide" in message else None) as server:
        shown = build(folder, "--model", "m", "--model-does", "subject", "--model-url", server.url)
    assert shown.exit_code == 0, shown.output
    assert [row["subject_by"] for row in rows(folder)] == ["phrase", "phrase", "capitals"]
    assert provenance(folder)["model"]["kept"]["subject: no reply: cut or invalid JSON"] == 1


def test_an_estimate_asks_nobody_and_a_budget_stops(folder: Path) -> None:
    prices = folder / "prices.yaml"
    prices.write_text("m: {prompt: 1000.0, reply: 1000.0}\n", encoding="utf-8")
    with fault_server(helper) as server:
        model = ("--model", "m", "--model-url", server.url, "--prices", prices)
        shown = build(folder, *model, "--estimate")
        assert shown.exit_code == 0, shown.output
        assert "subject: 5 calls (0 more are in the cache)" in shown.stdout
        assert "rephrase: 5 calls" in shown.stdout
        assert server.paid.total() == 0
        assert not (folder / "made.json").exists()
        stopped = build(folder, *model, "--budget", "0.5")
    assert stopped.exit_code == 1
    assert "with a larger --budget" in stopped.stderr
    unnamed = build(folder, "--estimate")
    assert (unnamed.exit_code, "give --model NAME" in unnamed.stderr) == (1, True)


def test_the_command_offers_every_part_that_a_model_can_do() -> None:
    assert tuple(asking.PARTS) == PARTS
