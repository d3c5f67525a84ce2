"""Cloze templates mined from statements: which facts are stated, what becomes a template, what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from world.fault_server import fault_server
from world.two_days import OLD, about, item, two_snapshots
from world.updates import article

from kgedit.cli import main
from kgedit.errors import TimestepError
from kgedit.llm.remote.requests import ChatReply, FailedCall
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.verbalizing.mining import (
    cloze_of,
    facts_to_state,
    mine,
    mined_catalogue,
    wanted_statements,
)
from kgedit.timesteps.verbalizing.prompting import read_prompt
from kgedit.wording.templates import template_table


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Towns in countries; the countries are popular, and so are the towns that are capitals."""
    places = {n: (about("P17", "Q1"), about("P6", f"Q{200 + n}")) for n in range(6)}
    towns = [article(f"Q{100 + n}", *facts, label=f"Town {n}") for n, facts in places.items()]
    capitals = [article(f"Q{n}", about("P36", f"Q{99 + n}"), label=f"Country {n}") for n in range(1, 6)]
    mayors = [item(f"Q{200 + n}", label=f"Mayor {n}") for n in range(6)]
    named = [
        item(name, label=label)
        for name, label in (("P17", "country"), ("P6", "head of government"), ("P36", "capital"))
    ]
    for entity in named:
        entity["type"] = "property"
        entity["datatype"] = "wikibase-item"
    everything = [*towns, *capitals, *mayors, *named]
    return two_snapshots(tmp_path, everything, everything)[0]


def test_facts_of_popular_subjects_are_stated_one_for_each_subject_and_relation(snapshot: Snapshot) -> None:
    facts = facts_to_state(snapshot, per_relation=3, most_popular=6)
    # Country 1 is the value of six facts, its rivals of one each, in the order of their ids.
    assert set(facts["property"].to_pylist()) == {"P6", "P17", "P36"}
    assert max(facts["property"].to_pylist().count(name) for name in ("P6", "P17", "P36")) <= 3
    assert len(set(zip(facts["subject"].to_pylist(), facts["property"].to_pylist(), strict=True))) == facts.num_rows
    assert facts_to_state(snapshot, per_relation=3, most_popular=6).equals(facts)
    assert not facts_to_state(snapshot, per_relation=3, most_popular=6, seed=1).equals(facts)
    only = facts_to_state(snapshot, properties=["P36"], per_relation=9, most_popular=1)
    assert only["subject_label"].to_pylist() == ["Country 1"]


def test_with_page_views_the_most_read_items_are_popular(snapshot: Snapshot, tmp_path: Path) -> None:
    views = tmp_path / "pageviews-202012-user"
    read = {"Town_3": 900, "Town_5": 70, "Country_1": 5}
    views.write_text("".join(f"en.wikipedia {name} 1 desktop {n} A{n}\n" for name, n in read.items()), encoding="utf-8")
    facts = facts_to_state(snapshot, properties=["P6", "P36"], most_popular=2, pageviews=[views])
    assert sorted(set(facts["subject_label"].to_pylist())) == ["Town 3", "Town 5"]
    assert facts_to_state(snapshot, properties=["P6", "P36"], most_popular=2, pageviews=[views]).equals(facts)
    late = views.rename(tmp_path / "pageviews-202101-user")
    with pytest.raises(TimestepError, match="twelve months before 2021-01-04"):
        facts_to_state(snapshot, pageviews=[late])


FACTS = pa.table(
    {
        "subject": ["Q1", "Q2", "Q3"],
        "subject_label": ["Arvika", "Falun", "Mora"],
        "subject_description": ["town in Sweden", "", ""],
        "property": ["P6", "P6", "P6"],
        "property_label": ["head of government"] * 3,
        "property_description": ["who governs"] * 3,
        "object": ["Q4", "Q5", "Q6"],
        "object_label": ["Olof Gren", "Tove Friis", "Asta Wik"],
        "object_description": [""] * 3,
    }
)


def test_a_record_has_descriptions_and_another_fact_of_its_relation() -> None:
    (first, *_, last) = wanted_statements(FACTS)
    assert first.record == {
        "subject": "Arvika",
        "subject_description": "town in Sweden",
        "relation": "head of government",
        "relation_description": "who governs",
        "object": "Olof Gren",
        "relation_example": ["Falun", "Tove Friis"],
    }
    assert last.record["relation_example"] == ["Arvika", "Olof Gren"]
    assert "relation_example" not in wanted_statements(FACTS.slice(0, 1))[0].record


@pytest.mark.parametrize(
    ("statement", "cloze", "fault"),
    [
        ("The head of Arvika is Olof Gren.", "The head of {subject} is", None),
        ("Arvika is governed by  Olof Gren", "{subject} is governed by", None),
        ("Olof Gren governs Arvika.", None, "it does not end in the object"),
        ("The head of Arvika is Dolof Gren.", None, "it does not end in the object"),
        ("The head of the town is Olof Gren.", None, "it does not hold the subject once"),
        ("Arvika, yes Arvika, is led by Olof Gren.", None, "it does not hold the subject once"),
        ("The {head} of Arvika is Olof Gren.", None, "it is not plain text"),
        ("Arvika's head is Olof Gren.", None, "the linter refuses its template"),
        ("The head of Arvika: Olof Gren.", None, "the linter refuses its template"),
    ],
)
def test_a_statement_with_the_subject_that_ends_in_the_object_is_a_template(
    statement: str, cloze: str | None, fault: str | None
) -> None:
    assert cloze_of(statement, "Arvika", "Olof Gren") == (cloze, fault)


@pytest.mark.parametrize("end", ["", "."])
def test_an_answer_may_end_in_a_full_stop(end: str) -> None:
    assert cloze_of(f"The owner of Arvika is Apple Inc.{end}", "Arvika", "Apple Inc.") == (
        "The owner of {subject} is",
        None,
    )


def reply(subject: str, answer: str, *clozes: str) -> ChatReply:
    texts = [f"{cloze.format(subject=subject)} {answer}." for cloze in clozes]
    padded = (texts + ["This is no statement of it."] * 10)[:10]
    return ChatReply(text=read_prompt("statements").reply(padded, answer), finished=True, prompt_tokens=1, new_tokens=1)


COMMON = [
    "The mayor of {subject} is",
    "{subject} is led by",
    "Head of {subject} is",
    "{subject} obeys",
    "At the top of {subject} is",
]


def test_the_five_most_frequent_templates_are_kept_and_the_special_ones_fall_away() -> None:
    replies = [
        reply("Arvika", "Olof Gren", *COMMON, "The Swedish town {subject} has elected", "{subject} is led by"),
        reply("Falun", "Tove Friis", *COMMON[:4]),
        FailedCall("500"),
    ]
    mined = mine(FACTS, replies)
    assert mined.kept == {"P6": (*sorted(COMMON[:4]), "At the top of {subject} is")}
    times = dict(zip(mined.table["cloze"].to_pylist(), mined.table["times"].to_pylist(), strict=True))
    assert (times["{subject} is led by"], times["The Swedish town {subject} has elected"]) == (2, 1)
    assert mined.dropped == {"it does not end in the object": 9, "no reply: 500": 10}


def test_the_catalogue_says_the_mined_clozes_and_all_else_as_before(tmp_path: Path) -> None:
    facts = FACTS.set_column(3, "property", pa.array(["P6", "P6", "P99999"]))
    mined = mine(
        facts,
        [reply(FACTS["subject_label"][row].as_py(), FACTS["object_label"][row].as_py(), *COMMON) for row in range(3)],
    )
    path = tmp_path / "mined.yaml"
    path.write_text(mined_catalogue(mined), encoding="utf-8")
    shipped = {(row["property"], row["subject_class"]): row for row in template_table().to_pylist()}
    found = {(row["property"], row["subject_class"]): row for row in template_table(path).to_pylist()}
    assert set(found) - set(shipped) == {("P99999", "")}
    assert found["P6", ""]["clozes"] == sorted(COMMON)
    assert found["P6", ""]["question"] == shipped["P6", ""]["question"]
    assert found["P99999", ""]["phrase"] == "the head of government of {subject}"
    changed = {key for key in shipped if found[key]["clozes"] != shipped[key]["clozes"]}
    assert changed == {("P6", "")}


@pytest.mark.slow
def test_the_command_writes_a_catalogue_and_a_second_run_asks_nobody(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KGEDIT_HOME", str(snapshot.folder.parents[1]))

    def model(message: str) -> str:
        record = json.loads(message)
        return reply(record["subject"], record["object"], *COMMON).text

    out = tmp_path / "mined.yaml"
    with fault_server(model) as server:
        given = ["mine-templates", "--date", OLD, "--model", "m", "--base-url", server.url, "--property", "P6"]
        given += ["--out", str(out), "--no-structured"]
        assert "calls: 5 (0 more" in CliRunner().invoke(main, [*given, "--estimate"]).stdout
        shown = CliRunner().invoke(main, given, env={"COLUMNS": "120"})
        assert shown.exit_code == 0, shown.output
        assert server.paid.total() == 5
    assert "{subject} is led by" in shown.stdout
    first = out.read_bytes()
    again = CliRunner().invoke(main, [*given, "--overwrite"])
    assert (again.exit_code, out.read_bytes()) == (0, first)
    assert "0 calls" in again.stderr
    assert CliRunner().invoke(main, given).exit_code == 1


@pytest.mark.parametrize(
    ("out", "pid", "found"),
    [("absent/mined.yaml", "P6", "There is no folder"), ("mined.yaml", "P999", "no facts of popular subjects")],
)
def test_templates_that_cannot_be_written_or_found_are_refused_before_asking(
    out: str, pid: str, found: str, snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KGEDIT_HOME", str(snapshot.folder.parents[1]))
    with fault_server() as server:
        given = ["mine-templates", "--date", OLD, "--model", "m", "--base-url", server.url, "--property", pid]
        shown = CliRunner().invoke(main, [*given, "--out", str(tmp_path / out)], env={"COLUMNS": "200"})
        assert (shown.exit_code, server.paid.total()) == (1, 0)
    assert found in shown.output
