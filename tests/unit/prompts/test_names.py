"""Names in a sentence: which take "the"."""

from __future__ import annotations

import pytest

from kgedit.prompts.names import name_rules


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
    ],
)
def test_bodies_and_some_countries_take_the_article(label: str) -> None:
    assert name_rules().said(label) == f"the {label}"


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
    ],
)
def test_most_names_take_none(label: str) -> None:
    assert name_rules().said(label) == label


def test_a_person_never_takes_one_whatever_the_label_looks_like() -> None:
    assert name_rules().said("Bobby Union", subject_class="person") == "Bobby Union"
    assert name_rules().said("Netherlands", subject_class="person") == "Netherlands"


def test_an_instance_of_a_class_with_the_article_takes_it_and_labels_are_trimmed() -> None:
    assert name_rules().said(" Rhine ", by_class=True) == "the Rhine"
    assert name_rules().said("Rhine") == "Rhine"
    assert name_rules().said("Lake  Geneva", by_class=True) == "Lake Geneva"
