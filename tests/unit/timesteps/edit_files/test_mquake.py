"""MQuAKE's objects become cases that share a group, chains of facts and single hops."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

from world.edit_files import MQUAKE, Json, write_json

from kgedit.records.cases import Case
from kgedit.timesteps.edit_files import EditFile

CAPITAL: Json = {
    "prompt": "{} is in",
    "question": "Which county is Falun in?",
    "subject": "Falun",
    "relation_id": "P131",
    "target_new": {"str": "Gävleborg County", "id": "Q42"},
    "target_true": {"str": "Dalarna County", "id": "Q41"},
}


def two_edits(case_id: int = 13) -> Json:
    """The chain of MQUAKE with a second edit, of its last fact."""
    row = copy.deepcopy(MQUAKE) | {"case_id": case_id, "new_answer": "Gävleborg County", "new_answer_alias": []}
    row["requested_rewrite"] = [*row["requested_rewrite"], CAPITAL]
    row["new_single_hops"][2] |= {"answer": "Gävleborg County", "answer_alias": []}
    row["orig"]["new_triples"][2][2] = "Q42"
    row["orig"]["new_triples_labeled"][2][2] = "Gävleborg County"
    return row


def _read(folder: Path, *rows: Json) -> EditFile:
    return EditFile.open(write_json(folder / "mquake.json", *rows))


def _asked(case: Case) -> list[tuple[str, str, str]]:
    return [(probe.axis, probe.question, probe.answers[0]) for probe in case.probes]


def test_the_edit_is_asked_for_by_its_question_and_has_the_statement_as_cloze(tmp_path: Path) -> None:
    (case,) = _read(tmp_path, MQUAKE).cases()
    assert (case.question, case.cloze) == ("Who is the mayor of Arvika?", "The mayor of Arvika is")
    assert (case.answer, case.old_answers, case.old_objects) == ("Olof Gren", ("Nils Ek",), ("Q10",))
    assert (case.fact.subject, case.fact.property, case.fact.property_label) == ("Q100", "P6", "head of government")
    assert case.probes[0].answers == ("Olof Gren", "O. Gren")


def test_every_wording_of_the_chain_and_each_of_its_hops_is_asked_with_the_last_edit(tmp_path: Path) -> None:
    first, second = _read(tmp_path, two_edits()).cases()
    assert first.group == second.group == "edit:0:13"
    assert (first.case_id, second.case_id) == ("edit:0:13-0", "edit:0:13-1")
    assert _asked(first) == [("update", "Who is the mayor of Arvika?", "Olof Gren")]
    assert _asked(second) == [
        ("update", "Which county is Falun in?", "Gävleborg County"),
        *(("mhop", question, "Gävleborg County") for question in MQUAKE["questions"]),
        ("hop", "Who is the mayor of Arvika?", "Olof Gren"),
        ("hop", "Where was Olof Gren born?", "Falun"),
        ("hop", "Which county is Falun in?", "Gävleborg County"),
    ]
    wordings = [probe for probe in second.probes if probe.axis == "mhop"]
    (chain,) = {probe.chain for probe in wordings}
    assert chain is not None
    assert (chain.chain_id, chain.hops) == ("edit:0:13", 3)
    assert chain.hop_questions == tuple(probe.question for probe in second.probes if probe.axis == "hop")
    assert chain.old_answers == ("Skåne County", "Skåne", "Malmöhus County")
    assert [fact.object for fact in wordings[0].facts] == ["Q20", "Q40", "Q42"]
    assert [probe.second_case_id for probe in wordings] == [None] * 3


def test_what_held_before_is_the_old_chain_and_the_facts_that_no_edit_changes(tmp_path: Path) -> None:
    known = {(fact.question, fact.answer) for fact in _read(tmp_path, two_edits()).known_facts()}
    assert known == {
        ("Who is the mayor of Arvika?", "Nils Ek"),
        ("Where was Nils Ek born?", "Lund"),
        ("Which county is Lund in?", "Skåne County"),
        ("Where was Olof Gren born?", "Falun"),
        ("Which county is Falun in?", "Dalarna County"),
    }


def test_an_object_without_one_of_its_edits_or_its_answer_is_counted(tmp_path: Path) -> None:
    broken, unanswered = two_edits(), copy.deepcopy(MQUAKE) | {"new_answer": "", "new_answer_alias": []}
    broken["requested_rewrite"] = [broken["requested_rewrite"][0], "Falun"]
    edits = _read(tmp_path, MQUAKE, broken, unanswered)
    assert edits.left_out == {
        "edits that lack requested_rewrite": 1,
        "multi-hop questions without an answer or a chain of facts": 3,
    }
    assert [len(case.probes) for case in edits.cases()] == [7, 4]


def test_a_chain_without_ids_has_as_many_hops_as_single_questions(tmp_path: Path) -> None:
    row = copy.deepcopy(MQUAKE)
    del row["orig"]
    (case,) = _read(tmp_path, row).cases()
    chains = [probe.chain for probe in case.probes if probe.chain]
    assert [chain.hops for chain in chains] == [3, 3, 3]
    assert len({fact.subject for fact in case.probes[1].facts}) == 3


def _remastered(row: Json) -> Json:
    """The same object as MQuAKE-Remastered has it: targets as texts, chains at the top level."""
    flat = copy.deepcopy(row)
    orig = flat.pop("orig")
    for name in ("triples", "triples_labeled"):
        flat |= {f"orig_{name}": orig[name], f"new_{name}": orig[f"new_{name}"]}
    for rewrite in flat["requested_rewrite"]:
        rewrite |= {f"{name}_str": rewrite.pop(name)["str"] for name in ("target_new", "target_true")}
    return flat | {"split": {"100": ["edited"]}}


def test_remastered_has_the_same_cases_but_for_the_ids_of_old_objects(tmp_path: Path) -> None:
    first, second = _read(tmp_path, MQUAKE, two_edits()), _read(tmp_path, *map(_remastered, (MQUAKE, two_edits())))
    assert [field.path for field in second.unused] == ["single_hops.answer_alias", "split.100"]
    plain, flat = ([dataclasses.replace(case, old_objects=()) for case in file.cases()] for file in (first, second))
    assert plain == flat
    assert [fact.answer for fact in first.known_facts()] == [fact.answer for fact in second.known_facts()]
