"""Probes that a later timestep of a run puts out of date."""

from __future__ import annotations

import dataclasses

from world.small_runs import T1, T2, T3, WILD, answer

from kgedit.metrics.judged import AnswerGroup, judge_answers
from kgedit.metrics.scores import retention
from kgedit.records.cases import Case, Fact, Probe
from kgedit.records.runs import ModelState
from kgedit.runs.evaluator import mark_expiring, without_expired


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


def test_edits_without_ids_expire_nothing() -> None:
    unnamed = fact("near-1", "near-object-1", relation="near-relation-1")
    marked = mark_expiring({T1: [case(T1, unnamed)], T2: [case(T2, dataclasses.replace(unnamed, object="other"))]})
    assert marked[T1][0].probes[0].expires is None


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
