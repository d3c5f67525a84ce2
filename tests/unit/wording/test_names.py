"""Names in a sentence: which take "the"."""

from __future__ import annotations

import pytest

from kgedit.wording.names import name_rules, with_indefinite_article


@pytest.mark.parametrize(
    "label",
    [
        "French National Assembly",
        "Netherlands",
        "United Kingdom",
        "Chamber of Deputies",
        "National Police of Ukraine",
        "University of Vienna",
        "Bank of England",
        "Ministry of Finance",
        "European Parliament",
        "International Monetary Fund",
        "2018 FIFA World Cup",
        "Democratic Republic of the Congo",
        "Swiss Red Cross",
        "Academy Award for Best Actor",
        "National Film Registry",
        "Massachusetts Institute of Technology",
        "Institute for Advanced Study",
        "Tower of London",
        "New York Red Bulls",
        "Los Angeles Lakers",
        "Tokyo Stock Exchange",
        "Walt Disney Company",
        "Jet Propulsion Laboratory",
        "Kyoto Protocol",
        "2004 Madrid train bombings",
        "Boeing 747",
        "Catholic Church",
        "Municipal Stadium",
        "Danube",
        "University of Maryland, Baltimore County",
        "Liberal National Party of Queensland",
        "Royal Order of the Seraphim",
        "Berlin Wall",
        "Aachen cities region",
        "Verkhovna Rada",
        "Paris International Exposition of 1937",
        "North Sea",
        "Christian Social Union in Bavaria",
        "Pirate Party Germany",
        "Belarus national under-21 football team",
        "Commonwealth Games",
        "SEA Games",
        "Lusophony Games",
        "World Nomad Games",
        "World Mind Sports Games",
        "World Police and Fire Games",
        "Friendship Games",
        "Micronesian Games",
        "Panhellenic Games",
        "1985 Southeast Asian Games",
    ],
)
def test_bodies_and_some_countries_take_the_article(label: str) -> None:
    assert name_rules().in_sentence(label) == f"the {label}"


@pytest.mark.parametrize(
    "label",
    [
        "France",
        "Angela Merkel",
        "Yale University",
        "The Beatles",
        "Mount Everest",
        "FC Bayern Munich",
        "Apple",
        "NASA",
        "Lake Geneva",
        "Wembley Stadium",
        "Manchester United",
        "iPhone",
        "Le Monde",
        "member of the German Bundestag",
        "Los Angeles FC",
        "Texas Instruments",
        "Chicago Heights",
        "Bank of America",
        "St. Mary's Catholic Church",
        "Gorleston-on-Sea",
        "Saltburn-by-the-Sea",
        "Frinton on Sea",
        "20,000 Leagues Under the Sea",
        "George IV of the United Kingdom",
        "Forza Italia",
        "Irrational Games",
        "Epic Games",
    ],
)
def test_most_names_take_none(label: str) -> None:
    assert name_rules().in_sentence(label) == label


def test_a_person_never_takes_one_whatever_the_label_looks_like() -> None:
    assert name_rules().in_sentence("Bobby Union", subject_class="person") == "Bobby Union"
    assert name_rules().in_sentence("Netherlands", subject_class="person") == "Netherlands"


def test_an_instance_of_a_class_with_the_article_takes_it_and_labels_are_trimmed() -> None:
    assert name_rules().in_sentence(" Kupa ", by_class=True) == "the Kupa"
    assert name_rules().in_sentence("Kupa") == "Kupa"
    assert name_rules().in_sentence("Lake  Geneva", by_class=True) == "Lake Geneva"


def test_as_an_answer_some_common_nouns_take_the_article() -> None:
    assert name_rules().in_sentence("automotive industry") == "automotive industry"
    assert name_rules().as_answer("automotive industry") == "the automotive industry"
    assert name_rules().as_answer("jazz") == "jazz"
    assert name_rules().as_answer("Frank Ocean", subject_class="person") == "Frank Ocean"


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("politician", "a politician"),
        ("actor", "an actor"),
        ("university teacher", "a university teacher"),
        ("urban planner", "an urban planner"),
        ("European politician", "a European politician"),
        ("Ortsteil", "an Ortsteil"),
        ("NBA season", "an NBA season"),
        ("EU directive", "an EU directive"),
        ("one-act play", "a one-act play"),
        ("honorary consul", "an honorary consul"),
        ("historians", "historians"),
        ("bus", "a bus"),
        ("UCI ProTeam", "a UCI ProTeam"),
    ],
)
def test_a_kind_in_the_singular_takes_an_indefinite_article(label: str, said: str) -> None:
    assert with_indefinite_article(label) == said
