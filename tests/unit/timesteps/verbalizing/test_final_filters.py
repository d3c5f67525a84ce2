"""The final filters of questions, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgedit.timesteps.filters import REASONS
from kgedit.timesteps.relation_words import stems
from kgedit.timesteps.verbalizing import Asking, faults_of, is_answer

MAYOR = Asking(
    subject="Arvika",
    relations=(stems(["head of government", "Who heads the government of {subject}?", "mayor"]),),
    answer="Olof Gren",
    accepted=("O. Gren", "Gren the Elder", "OG"),
    unlike=("Who is the head of government of Arvika?",),
)
BORN = replace(
    MAYOR,
    relations=(*MAYOR.relations, stems(["place of birth", "Where was {subject} born?"])),
    answer="Kalix",
    accepted=("Nederkalix",),
    hidden=("Olof Gren", "Gren the Elder"),
)


def fault_of(question: str, asking: Asking) -> str | None:
    return faults_of([(asking, [question])])[0][0]


@pytest.mark.parametrize(
    "question",
    [
        "Who is the mayor of Arvika?",
        "Under whose government does ARVIKA stand?",
        "Tell me, detective: who's heading Arvika's town hall?",
        "Avast! Which landlubber be governin' Arvika?",
    ],
)
def test_a_question_that_asks_for_the_fact_passes(question: str) -> None:
    assert fault_of(question, MAYOR) is None


FAULTS = {
    "Who is the mayor of {Arvika}?": "it is not plain text",
    "Who is\nthe mayor of Arvika?": "it is not plain text",
    "Who is the mayor of Arvika? See https://evil.example?": "it is not plain text",
    "The mayor of Arvika is": "it does not end in a question mark",
    "Who is the mayor of Arvika? Who else governs it?": "it asks more than one question",
    "Who is the mayor of Arvika, and what is her party?": "it asks more than one question",
    "Mayor Arvika?": "it is too short or too long",
    "Who is the mayor of Arvika " + "or " * 60 + "so?": "it is too short or too long",
    "Who is the mayor of the town?": "the subject is missing",
    "What is the colour of Arvika?": "the relation is not expressed",
    "Who else than Olof Gren is the mayor of Arvika?": "it gives the answer away",
    "Is Gren the Elder the mayor of Arvika, or who?": "it gives the answer away",
    "Who is the mayor of Arvika, a town of Q1234?": "it holds the id of an entity",
    "who is the head of government of arvika ?": "it repeats another question of the case",
}


@pytest.mark.parametrize("question", FAULTS)
def test_a_question_that_does_not_is_refused_for_its_first_fault(question: str) -> None:
    assert fault_of(question, MAYOR) == FAULTS[question]


def test_a_hint_that_contains_an_alias_gives_the_answer_away_unlike_the_label() -> None:
    hinted = replace(MAYOR, subject="Arvika (O. Gren)", label="Arvika")
    question = "Who is the mayor of Arvika (O. Gren)?"
    assert fault_of(question, hinted) == "it gives the answer away"
    assert fault_of(question, replace(hinted, label="Arvika O. Gren")) is None


TWO_HOPS = {
    "Where was the mayor of Arvika born?": None,
    "Where was Olof Gren, the mayor of Arvika, born?": "it names the entity in the middle",
    "Where was [MASKED-ENTITY-1], mayor of Arvika, born?": "it is not plain text",
    "Where was the masked mayor of Arvika born?": "it names the entity in the middle",
    "Was the mayor of Arvika born in Kalix, or where?": "it gives the answer away",
    "Where does the mayor of Arvika live?": "the relation is not expressed",
}


@pytest.mark.parametrize("question", TWO_HOPS)
def test_a_two_hop_question_needs_both_relations_and_hides_the_middle(question: str) -> None:
    assert fault_of(question, BORN) == TWO_HOPS[question]


def test_each_filter_is_reached_by_some_question() -> None:
    reached = {*FAULTS.values(), *TWO_HOPS.values()}
    assert set(REASONS) <= reached


def test_names_of_the_subject_are_no_leak_and_need_not_be_plain() -> None:
    asking = replace(MAYOR, subject="Gren the Elder [film]? {1}", answer="Ada")
    assert fault_of("Who heads the government in Gren the Elder [film]? {1}?", asking) is None


def test_aliases_below_three_letters_leak_nothing_and_short_answers_do() -> None:
    assert fault_of("Who is the mayor of Arvika, OG and all?", MAYOR) is None
    three = replace(MAYOR, accepted=("OGR",))
    assert fault_of("Who is the mayor of Arvika, OGR and all?", three) == "it gives the answer away"
    assert (
        fault_of("Who is the mayor of Arvika, OG and all?", replace(MAYOR, answer="OG")) == "it gives the answer away"
    )


@pytest.mark.parametrize(("text", "is_one"), [("olof gren", True), ("O Gren.", True), ("Olof", False), ("", False)])
def test_the_answer_is_its_label_or_an_alias(text: str, is_one: bool) -> None:
    assert is_answer(text, MAYOR) is is_one
