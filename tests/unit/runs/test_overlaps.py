"""Probes of facts that other edits of a run change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from world.small_models import save, small_model
from world.small_runs import T1, T2, T3, WILD, answer
from world.small_timestep import write_timestep

from kgedit.cli import main
from kgedit.cli.runs import _tell_left_out
from kgedit.metrics.judged import AnswerGroup, judge_answers
from kgedit.metrics.scores import retention
from kgedit.records.cases import LOCALITY_AXES, Axis, Case, Fact, KnownFact, Probe
from kgedit.records.runs import ModelState, Selection
from kgedit.runs.overlaps import leave_out_edited, mark_expiring, mark_shared_ids, without_expired
from kgedit.runs.run_files import read_answers
from kgedit.runs.selection import choose_cases, write_selection
from kgedit.runs.setup import unasked
from kgedit.runs.spec import resolve
from kgedit.timesteps.edit_files import EditFile
from kgedit.timesteps.tables import TABLES


def fact(subject: str, thing: str, relation: str = "P6") -> Fact:
    return Fact(subject, f"Town {subject}", relation, "mayor", thing, f"Person {thing}")


def case(timestep: str, edited: Fact, *probes: Probe) -> Case:
    own = Probe("update", f"Who leads {edited.subject}?", (edited.object_label,), (edited,))
    return Case(
        case_id=f"{edited.subject}:{edited.property}:{edited.object}", timestep=timestep, tag="new", fact=edited,
        question=own.question, answer=edited.object_label, cloze="", old_objects=(), old_answers=(),
        probes=(own, *probes),
    )  # fmt: skip


def locality(about: Fact) -> Probe:
    return Probe("locality", f"Who leads {about.subject}?", (about.object_label,), (about,))


def test_an_id_is_qualified_only_if_cases_of_several_timesteps_differ() -> None:
    same, other = fact("Q1", "Q7"), fact("Q2", "Q8")
    numbered = dataclasses.replace(case(T1, fact("subject-0", "object-0")), case_id="edit:0:0")
    different = dataclasses.replace(numbered, timestep=T2, question="Where is Town subject-0?")
    relabelled = dataclasses.replace(case(T2, same), question="Who is the mayor of Q1?")
    marked = mark_shared_ids({T1: [numbered, case(T1, same), case(T1, other)], T2: [different, relabelled]})
    assert [one.id_in_run for one in marked[T1]] == [f"{T1}\tedit:0:0", "Q1:P6:Q7", "Q2:P6:Q8"]
    assert [one.id_in_run for one in marked[T2]] == [f"{T2}\tedit:0:0", "Q1:P6:Q7"]
    again = mark_shared_ids({T1: [numbered], T2: [dataclasses.replace(numbered, timestep=T2)]})
    assert [one.id_in_run for one in (*again[T1], *again[T2])] == ["edit:0:0"] * 2, "the same fact"


def test_a_probe_expires_when_a_later_timestep_gives_one_of_its_facts_another_object() -> None:
    near, hop = locality(fact("Q2", "Q7")), Probe("mhop", "Where?", ("x",), (fact("Q1", "Q7"), fact("Q3", "Q9")))
    marked = mark_expiring(
        {
            T1: [case(T1, fact("Q1", "Q7"), near, hop), case(T1, fact("Q4", "Q7"))],
            T2: [case(T2, fact("Q2", "Q8")), case(T2, fact("Q4", "Q7"))],
            T3: [case(T3, fact("Q2", "Q7")), case(T3, fact("Q1", "Q8")), case(T3, fact("Q3", "Q8"))],
        }
    )
    assert list(marked) == [T1, T2, T3]
    first, kept = marked[T1]
    # The last one's fact is edited again, and to the same object: its answers stay right.
    assert [probe.expires for probe in (*first.probes, *kept.probes)] == [T3, T2, T3, None]
    assert [probe.expires for one in marked[T2] for probe in one.probes] == [T3, None]
    assert [len(one.probes) for one in without_expired([first, kept], [T1, T2])] == [2, 1]
    assert without_expired([first], [T1]) == [first]
    assert without_expired([first], [T1, T2, T3])[0].probes == ()


def test_a_locality_probe_expires_even_if_a_later_edit_gives_its_fact_the_same_object() -> None:
    marked = mark_expiring(
        {T1: [case(T1, fact("Q1", "Q7"), locality(fact("Q2", "Q7")))], T2: [case(T2, fact("Q2", "Q7"))]}
    )
    assert [probe.expires for probe in marked[T1][0].probes] == [None, T2]


def test_a_locality_probe_is_left_out_if_an_edit_before_it_is_asked_teaches_its_fact() -> None:
    hop = Probe("mhop", "Where?", ("x",), (fact("Q1", "Q7"), fact("Q3", "Q9")))
    cases = {
        T1: [
            case(T1, fact("Q1", "Q7"), locality(fact("Q2", "Q7")), locality(fact("Q5", "Q7")), hop),
            case(T1, fact("Q3", "Q9"), locality(fact("Q1", "Q7"))),
        ],
        T2: [case(T2, fact("Q2", "Q8"), locality(fact("Q1", "Q7")), locality(fact("Q1", "Q7", relation="P35")))],
        T3: [case(T3, fact("Q8", "Q7"), locality(fact("Q9", "Q7")))],
    }
    left, counts = leave_out_edited(cases)
    # Q2 is edited only later, until when its question is valid; two hops and another property of Q1 are no locality.
    assert left[T1][0] == cases[T1][0]
    assert left[T1][1].probes == cases[T1][1].probes[:1]
    assert left[T2][0].probes == (cases[T2][0].probes[0], cases[T2][0].probes[2])
    assert left[T3] == cases[T3]
    assert counts == {T1: 1, T2: 1, T3: 0}


def test_an_edit_without_ids_leaves_out_no_other_fact_with_the_same_ids() -> None:
    unnamed = fact("near-1", "near-object-1", relation="near-relation-1")
    other = dataclasses.replace(locality(unnamed), question="Where is Falun?")
    cases = {T1: [case(T1, unnamed)], T2: [case(T2, fact("Q1", "Q7"), other)]}
    assert leave_out_edited(cases) == (cases, {T1: 0, T2: 0})


def numbered(timestep: str, row: int, town: str, thing: str, *, relation: str = "P6", question: str = "") -> Case:
    """Case of a file that gives no ids of subjects and objects, and perhaps none of relations."""
    edited = Fact(f"subject-{row}", town, relation, "", f"object-{row}", thing)
    given = case(timestep, edited)
    own = dataclasses.replace(given.probes[0], question=question or f"Who leads {town}?")
    return dataclasses.replace(given, case_id=f"edit:{row}:{row}", question=own.question, probes=(own,))


def test_facts_of_files_without_ids_are_compared_by_their_words_not_by_their_rows() -> None:
    marked = mark_expiring(
        {
            T1: [numbered(T1, 0, "Falun", "Ann"), numbered(T1, 1, "Mora", "Bo"), numbered(T1, 2, "Sala", "Cid")],
            T2: [
                numbered(T2, 0, "Hjo", "Dan"),
                numbered(T2, 1, "falun", "Eva", question="The mayor of Falun is"),
                numbered(T2, 2, "Mora", "bo"),
            ],
        }
    )
    assert [one.probes[0].expires for one in marked[T1]] == [T2, None, None]


@pytest.mark.parametrize("axis", LOCALITY_AXES)
@pytest.mark.parametrize("subject", ["subject-1", "Q7"])
def test_a_locality_question_without_ids_is_left_out_or_expires_if_it_is_the_question_of_an_edit(
    axis: Axis, subject: str
) -> None:
    def near(question: str, index: int) -> Probe:
        about = Fact(f"near-0-{index}", question, f"near-relation-0-{index}", "", f"near-object-0-{index}", "Ann")
        return Probe(axis, question, ("Ann",), (about,))

    asked = [near("who leads Mora? ", 0), near("The mayor of Mora is", 1), near("Who leads Hjo?", 2)]
    first, second = numbered(T1, 0, "Falun", "Bo"), numbered(T1, 1, "Mora", "Cid")
    second = dataclasses.replace(
        second, fact=dataclasses.replace(second.fact, subject=subject), cloze="The mayor of Mora is"
    )
    given = {T1: [dataclasses.replace(first, probes=(*first.probes, *asked)), second]}
    left, counts = leave_out_edited(given)
    assert (left[T1][0].probes[1:], counts) == ((asked[2],), {T1: 2})
    later = mark_expiring({T1: given[T1][:1], T2: [second]})[T1][0]
    assert [probe.expires for probe in later.probes] == [None, T2, T2, None]


def test_facts_without_a_property_are_compared_by_their_question() -> None:
    def of(timestep: str, town: str, thing: str, row: int) -> Case:
        return numbered(timestep, row, "", thing, relation=f"relation-{row}", question=f"Who leads {town}?")

    marked = mark_expiring(
        {
            T1: [of(T1, "Falun", "Ann", 0), of(T1, "Mora", "Bo", 1)],
            T2: [of(T2, "Hjo", "Eva", 0), of(T2, "Mora", "X", 7)],
        }
    )
    assert [one.probes[0].expires for one in marked[T1]] == [None, T2]


def test_edits_of_one_fact_to_different_answers_are_counted_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leads = {"prompt": "Who leads Falun?", "subject": "Falun"}
    rows = [
        leads | {"target_new": "Ann"},
        leads | {"target_new": "Bo"},
        leads | {"target_new": "Ann"},
        {"prompt": "Who leads Mora?", "subject": "Mora", "target_new": ["Cid", "Sid"]},
        {"prompt": "who leads Mora?", "subject": "Mora", "target_new": ["cid"]},
        {"prompt": "Who sits in Hjo?", "subject": "Hjo", "target_new": "Ann", "subject_id": "Q1", "relation_id": "P6"},
        {"prompt": "Who sits in Hjo?", "subject": "Hjo", "target_new": "Bo", "subject_id": "Q1", "relation_id": "P6"},
    ]
    file = tmp_path / "towns.json"
    file.write_text(json.dumps(rows))

    def counted(protocol: str) -> Selection:
        spec = resolve({"timesteps": [str(file)], "model": "tiny", "method": "ft_m", "protocol": protocol})
        cases, (counts,) = choose_cases([EditFile.open(file)], spec)
        (tmp_path / protocol).mkdir()
        write_selection(tmp_path / protocol, cases, [counts])
        return counts

    assert (counted("sequential").conflicting, counted("single").conflicting) == (3, 0)
    _tell_left_out(tmp_path / "sequential")
    _tell_left_out(tmp_path / "single")
    why = "of which one may undo the other"
    assert capsys.readouterr().err == f"towns: edits of one fact to different answers, {why}: 3\n"


def test_a_known_fact_of_another_file_is_unasked_unless_its_words_are_the_same() -> None:
    def known(town: str, row: int, thing: str) -> KnownFact:
        one = numbered(T2, row, town, thing)
        return KnownFact(one.fact, one.question, "", "", thing)

    given = [known("Hjo", 0, "Ann"), known("Falun", 5, "Bo")]
    assert unasked(given, [numbered(T1, 0, "Falun", "Cid")]) == given[:1]


def test_forgetting_is_measured_on_the_questions_that_no_later_timestep_puts_out_of_date() -> None:
    answers = [
        answer("Q1:P6:Q7", after=T1, text="wrong"),
        answer("Q2:P6:Q7", after=T1, expires=T2),
        answer("Q1:P6:Q7", after=T2, text="wrong"),
        answer("Q5:P6:Q7", after=T2, timestep=T2),
    ]
    groups = judge_answers(answers, {"wild": "exact_match"}, before={})
    (row,) = retention(groups, learned=[T1, T2], timesteps=[T1, T2], presets=["wild"])
    # With the question that expires the first row would begin at 0.5, and half of it would seem forgotten.
    assert (row.matrix[0][0], row.matrix[1][0], row.forgetting) == (0.0, 0.0, 0.0)
    assert groups[AnswerGroup(ModelState(T1), T1, "update", WILD.name)].values[:, 0].mean() == 0.5


@pytest.mark.usefixtures("own_home")
def test_a_run_asks_no_locality_question_whose_fact_it_edited_and_reports_their_number(tmp_path: Path) -> None:
    write_timestep(tmp_path / "first", towns=range(3))
    write_timestep(tmp_path / "second", name="20210101_20220101", towns=range(3, 5))
    near = pq.read_table(tmp_path / "first" / "cases.parquet").to_pylist()[0]
    path = tmp_path / "second" / "locality.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[0] |= {name: near[name] for name in rows[0].keys() & near.keys() - {"case_id"}}
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["locality"]), path)
    save(small_model(), tmp_path / "model")

    def asked(protocol: str) -> tuple[list[str], str]:
        given = ["--model", str(tmp_path / "model"), "--method", "ft_m", "--set", "steps=1", "--protocol", protocol]
        given += ["--timestep", str(tmp_path / "first"), "--timestep", str(tmp_path / "second"), "--device", "cpu"]
        out = tmp_path / protocol
        shown = CliRunner().invoke(main, ["run-edit", *given, "--preset", "synthetic", "--out", str(out)])
        assert shown.exit_code == 0, shown.output
        texts = {answer.question for answer in read_answers(out) if answer.axis == "locality"}
        return sorted(texts), shown.stderr

    everything, quiet = asked("single")
    left, told = asked("per_timestep")
    assert near["question"] in everything
    assert left == [question for question in everything if question != near["question"]]
    why = "because an edit of this or an earlier timestep edits their fact"
    assert f"20210101_20220101: locality questions not asked, {why}: 1" in told
    assert "not asked" not in quiet
