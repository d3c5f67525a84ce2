"""Words around a name that make it another name, or say which entity of that name is meant."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from world.small_cases import plain_case

from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.longer_names import (
    country_keys,
    is_another_side,
    is_of_another,
    means_another,
    name_goes_on,
    qualifying_countries,
)
from kgedit.graph_memory.matching import read_matcher
from kgedit.llm.embeddings import load_embedder
from kgedit.records.cases import Case, Fact
from kgedit.wording.name_index import NameIndex

LABELS = ("Ronaldo", "Mexico", "Norway", "Madrid", "Boston", "Charles", "Germany", "France", "X")


def _goes_on(text: str) -> list[str]:
    index = NameIndex()
    index.extend(LABELS, range(len(LABELS)))
    mentions = index.find(text)
    return [
        text[each.start : each.end]
        for each in mentions
        if name_goes_on(text, each, [LABELS[number] for number in each.subjects], mentions)
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Where does Cristiano Ronaldo play?", "Ronaldo"),
        ("Where does Ronaldo Nazario live?", "Ronaldo"),
        ("Who governs New Mexico?", "Mexico"),
        ("Who coaches Real Madrid?", "Madrid"),
        ("Is Charles III ill?", "Charles"),
        ("And Boston-Nord, who is its mayor?", "Boston"),
    ],
)
def test_a_longer_name_is_another_one(text: str, name: str) -> None:
    assert _goes_on(text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Where does Ronaldo play?",
        "Is Norway in NATO?",
        "Hello. Has Norway a king?",
        "who is the president of New mexico",
        "Who is King Charles?",
        "Norway Prime Minister?",
        "Norway UK relations",
        "Germany France: which coach?",
        "Who Is The Current President Of Mexico Today",
        "Wer ist Deutschlands Trainer, Boston Bürgermeister?",
        "Ronaldo's Club?",
        "Is X Corp. a company?",
    ],
)
def test_other_words_do_not_belong_to_a_name(text: str) -> None:
    assert _goes_on(text) == []


US, GEORGIA = "united states of america", "georgia"


@pytest.mark.parametrize(
    ("text", "countries"),
    [
        ("Who is the mayor of Oslo, Minnesota?", {US}),
        ("mayor of oslo, minnesota please", {US}),
        ("Who runs Oslo, MN now?", {US}),
        ("Oslo (Norway) mayor", {"norway"}),
        ("Who is the mayor of Oslo in Norway?", {"norway"}),
        ("Who is the mayor of Oslo in the United States?", {US}),
        ("Oslo, Georgia: its mayor?", {US, GEORGIA}),
        ("mayor of Oslo, Minnesota, USA", {US}),
        # Lists, people who are spoken to, and other words after a comma.
        ("Who governs Oslo, Norway and Georgia?", set()),
        ("Who governs Oslo, Norway, Georgia?", set()),
        ("Who governs Oslo, Minna?", set()),
        ("Oslo, or is it Bergen?", set()),
        ("Is Oslo in Norway?", set()),
        ("Who leads Oslo?", set()),
    ],
)
def test_a_country_or_a_part_of_one_qualifies_the_name_before_it(text: str, countries: set[str]) -> None:
    start = text.lower().index("oslo")
    assert qualifying_countries(text, start, start + 4) == countries


@pytest.mark.parametrize(
    ("text", "countries"),
    [
        ("Who chairs Oslo in the United States?", {US}),
        ("Who chairs the Norwegian Oslo?", {"norway"}),
        ("who chairs the norwegian oslo", {"norway"}),
        ("Who chairs the United States Oslo?", {US}),
        ("Who chairs Norway's Oslo?", {"norway"}),
        ("Who chairs the Texas Oslo?", {US}),
        ("Who chairs the Norwegian Oslo of Georgia?", {US, GEORGIA}),
        ("Is Oslo in Norway?", set()),
        ("can you tell us oslo", set()),
        ("Who chairs the old Oslo?", set()),
        ("In Norway, Oslo?", set()),
    ],
)
def test_a_country_in_more_places_qualifies_a_name_of_several_entities(text: str, countries: set[str]) -> None:
    start = text.lower().index("oslo")
    assert qualifying_countries(text, start, start + 4, shared=True) == countries


def test_these_places_do_not_qualify_a_name_of_one_entity() -> None:
    text = "Who chairs the Norwegian Oslo in Georgia?"
    assert qualifying_countries(text, text.index("Oslo"), text.index(" in ")) == set()


@pytest.mark.parametrize(
    ("text", "another"),
    [
        ("the mayor of a village near Oslo", True),
        ("Who runs the town outside of the city of Oslo", False),
        ("ten miles from Oslo", True),
        ("a farm south-east of Oslo", True),
        ("on the outskirts of Oslo", True),
        ("who coaches the reserves of Oslo", True),
        ("Oslo's under-19s, who trains them?", True),
        ("Oslo U21 coach", True),
        ("my old cat Oslo is ill", True),
        ("our boat is called Oslo", True),
        ("my club Oslo, who coaches it?", False),
        ("Oslo's coach", False),
        ("the head of Oslo", False),
        ("Oslo", False),
        ("who is calling the shots around Oslo", False),
    ],
)
def test_what_is_near_a_part_of_it_or_named_after_it_is_another_thing(text: str, another: bool) -> None:
    start = text.index("Oslo")
    assert means_another(text, start, start + 4) is another


def test_labels_that_are_no_countries_have_no_country() -> None:
    assert country_keys(["Norway", "Netherlands", "Oslo", "Isle of Man", ""]) == {
        "norway",
        "kingdom of the netherlands",
    }
    assert country_keys(["city of the United States", "town in Norway"]) == {US, "norway"}


@pytest.mark.parametrize(
    ("text", "label", "another"),
    [
        ("Who coaches Oslo's women?", "Oslo FC", True),
        ("Who coaches the women's team of Oslo?", "Oslo FC", True),
        ("the handball team of Oslo", "Oslo FC", True),
        ("the women's team of FC Oslo", "Oslo FC", True),
        ("Oslo basketball coach", "Oslo FC", True),
        ("Oslo basketball coach", "Oslo Sharks", False),
        ("Who coaches the Oslo women's team?", "Oslo women's national football team", False),
        ("Who coaches Oslo?", "Oslo FC", False),
    ],
)
def test_womens_teams_and_other_sports_are_other_sides(text: str, label: str, another: bool) -> None:
    start = text.index("Oslo")
    assert is_another_side(text, start, start + 4, [label]) is another


def test_a_country_may_follow_with_of() -> None:
    assert qualifying_countries("the Reform Party of the Netherlands?", 4, 16) == {"kingdom of the netherlands"}


def test_names_in_a_text_to_edit_ask_for_nothing() -> None:
    text = 'Shorten this: "Oslo is the capital."'
    assert means_another(text, text.index("Oslo"), text.index("Oslo") + 4)
    assert means_another("Translate this into Oslo's dialect: it rains.", 20, 24)
    assert means_another("Translate into Oslo's dialect: it rains.", 15, 19)
    assert not means_another("Translate the capital of Oslo", 25, 29)
    assert not means_another("Correct or not: Oslo is the capital.", 16, 20)


@pytest.mark.parametrize(
    ("text", "another"),
    [
        ("Übersetze ins Englische: Oslo ist die Hauptstadt.", True),
        ("please translate Sie: Oslo ist die Hauptstadt.", True),
        ("Kannst du das korrigieren: Oslo ist die Hauptstadt.", True),
        ("Traduis en anglais : Oslo est la capitale.", True),
        ("Peux-tu résumer ce texte : « Oslo est la capitale »", True),
        ("Traduce al inglés: Oslo es la capital.", True),
        ("translate ins Englische: the chancellor of Oslo is called Olaf.", True),
        ("Übersetze: Wer regiert Oslo?", True),
        ("Übersetze ins Norwegische: Wer regiert Oslo?", True),
        ("Fasse zusammen: Oslo ist die Hauptstadt.", True),
        ("Fasse the Text kurz zusammen: Oslo ist die Hauptstadt.", True),
        ("Korrigiere den Satz: Oslo ist die Hauptstadt.", True),
        ("S'il te plaît, corrige cette phrase : Oslo est la capitale.", True),
        ("Résume : Oslo est la capitale.", True),
        ("Resume: Oslo es la capital.", True),
        ("Por favor, corrige esta frase: Oslo es la capital.", True),
        ("Hallo: Wer regiert Oslo?", False),
        ("Wer hat die Werke von Ibsen übersetzt? Und wer regiert Oslo?", False),
        ("In aller Kürze: Wer regiert Oslo?", False),
        ("Fasse dich kurz: Wer regiert Oslo?", False),
        ("Korrigiere mich, wenn ich irre: Wer regiert Oslo?", False),
        ("Übersetze und antworte: Wer regiert Oslo?", False),
        ("Corrige-moi si je me trompe : qui dirige Oslo ?", False),
        ("Résume en une phrase : qui dirige Oslo ?", False),
        ("Para resumir: ¿quién gobierna Oslo?", False),
        ("Corrige si me equivoco: ¿quién gobierna Oslo?", False),
        ("To resume our talk: who runs Oslo?", False),
        ("Let's resume: I asked about Oslo.", False),
        ("Google Translate is down, so tell me: who runs Oslo?", False),
        ("Please translate and tell me: who runs Oslo?", False),
        ('Summarize the government of Oslo. Who is its head? Answer as JSON: {"name": "..."}', False),
        ("Summarize the government. Answer as JSON: who runs Oslo?", False),
        ("Correct my spelling. Who runs Oslo? Format: name", False),
    ],
)
def test_instructions_in_other_languages_ask_for_nothing_either(text: str, another: bool) -> None:
    start = text.index("Oslo")
    assert means_another(text, start, start + 4) is another


@pytest.mark.parametrize("words", ["translate ", "please ", "Übersetze den ", "Translate the ", "fasse "])
def test_a_long_text_is_searched_in_linear_time(words: str) -> None:
    began = time.perf_counter()
    text = words * 20000
    assert not means_another(text, len(text) - 1, len(text))
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("text", "label", "another"),
    [
        ("the Prime Minister of Laos", "prime minister", True),
        ("Who was Prime Minister of the Bahamas?", "prime minister", True),
        ("the Prime Minister of our country", "prime minister", False),
        ("the Prime Minister in Laos", "prime minister", False),
        ("the Prime Minister of Laos", "Prime Minister", False),
    ],
)
def test_a_common_noun_with_an_owner_is_part_of_another_name(text: str, label: str, another: bool) -> None:
    assert is_of_another(text, text.index("Minister") + 8, label) is another


def _memory(*cases: Case) -> GraphMemory:
    embedder = "all-minilm-l6-v2"
    memory = GraphMemory(
        load_embedder(embedder, device="cpu"), gate=read_gate(embedder), matcher=read_matcher(embedder)
    )
    memory.learn(cases)
    return memory


def _answers(memory: GraphMemory, questions: Sequence[str]) -> list[list[str]]:
    return [[row.answer for path in each.paths for row in path.rows] for each in memory.find(questions)]


@pytest.mark.models
def test_a_part_of_a_name_does_not_answer_for_the_whole() -> None:
    """Alone, "Prime Minister" fits the first question better than the office that it names."""

    def holder(office: str, name: str) -> Case:
        fact = Fact(office, office, "P1308", "officeholder", name, name)
        return plain_case(fact, timestep="20210101_20220101", question=f"Who holds the office of {office}?")

    memory = _memory(holder("Prime Minister", "Ada"), holder("Prime Minister of Laos", "Bo"))
    asked = ("Who holds the office of the Prime Minister of Laos?", "Who holds the office of Prime Minister?")
    assert _answers(memory, asked) == [["Bo"], ["Ada"]]


@pytest.mark.models
def test_a_country_in_a_person_s_name_does_not_answer_for_the_person() -> None:
    """The head of government of Denmark holds a position, and the gate gives these two steps a higher probability."""

    def case(fact: Fact) -> Case:
        return plain_case(fact, timestep="20210101_20220101", question=f"{fact.subject_label}: {fact.property_label}?")

    memory = _memory(
        case(Fact("Q1", "Margrethe II of Denmark", "P39", "position held", "Q2", "monarch of Denmark")),
        case(Fact("Q3", "Denmark", "P6", "head of government", "Q4", "Anker Jørgensen")),
        case(Fact("Q4", "Anker Jørgensen", "P39", "position held", "Q5", "Prime Minister of Denmark")),
    )
    asked = (
        "Which position does Margrethe II of Denmark hold?",
        "Which position does the head of government of Denmark hold?",
    )
    assert _answers(memory, asked) == [["monarch of Denmark"], ["Anker Jørgensen", "Prime Minister of Denmark"]]


@pytest.mark.models
def test_a_nickname_in_a_longer_label_does_not_answer_for_it() -> None:
    memory = _memory(
        plain_case(Fact("Q1", "Olympique Lyonnais", "P127", "owned by", "Q2", "Eagle"), timestep="20210101_20220101"),
        plain_case(Fact("Q3", "University of Lyon", "P17", "country", "Q4", "France"), timestep="20210101_20220101"),
    )
    assert _answers(memory, ["What is the University of Lyon?", "Who owns Lyon?"]) == [[], ["Eagle"]]


@pytest.mark.models
def test_a_relation_repeats_only_if_the_question_names_it_twice() -> None:
    def twin(one: str, other: str) -> Case:
        fact = Fact(one, one, "P190", "twinned administrative body", other, other)
        question = f"Which place is {one} twinned with?"
        return plain_case(fact, timestep="20210101_20220101", question=question, case_id=f"{one}-{other}")

    memory = _memory(twin("Bonn", "Ulm"), twin("Ulm", "Bonn"), twin("Ulm", "Kiel"))
    asked = ("What cities are twinned with Bonn?", "Which place is the place twinned with Bonn twinned with?")
    assert _answers(memory, asked) == [["Ulm"], ["Ulm", "Kiel"]]
