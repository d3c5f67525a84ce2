"""Verbs agree with names in the plural, where the name is what they speak of."""

from __future__ import annotations

import duckdb
import pytest

from kgedit.timesteps.wording import begun


@pytest.mark.parametrize(
    ("wording", "said"),
    [
        ("In which league does {subject} play?", "In which league do the Chicago Bulls play?"),
        ("By whom is {subject} coached?", "By whom are the Chicago Bulls coached?"),
        ("Is {subject} under copyright?", "Are the Chicago Bulls under copyright?"),
        ("{subject} has as its captain", "The Chicago Bulls have as their captain"),
        ("{subject} plays its home games at", "The Chicago Bulls play their home games at"),
        ("The league in which {subject} competes is", "The league in which the Chicago Bulls compete is"),
        ("As a team, {subject} carries", "As a team, the Chicago Bulls carry"),
        ("{subject} lies in", "The Chicago Bulls lie in"),
        # The name is not what these verbs speak of.
        ("The head coach of {subject} is", "The head coach of the Chicago Bulls is"),
        ("Who is the head coach of {subject}?", "Who is the head coach of the Chicago Bulls?"),
        ("The one in charge of {subject} was", "The one in charge of the Chicago Bulls was"),
    ],
)
def test_a_verb_agrees_with_a_plural_name(wording: str, said: str) -> None:
    assert sentence(wording, "the Chicago Bulls") == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("the Olympic Games", "The Olympic Games are known for"),
        ("the 2004 Madrid train bombings", "The 2004 Madrid train bombings are known for"),
        ("the Boston Red Sox", "The Boston Red Sox are known for"),
        ("the United States", "The United States is known for"),
        ("the Netherlands", "The Netherlands is known for"),
        ("the House of Commons", "The House of Commons is known for"),
        ("the Los Angeles Times", "The Los Angeles Times is known for"),
        ("the Congress", "The Congress is known for"),
        ("Los Angeles", "Los Angeles is known for"),
        ("the league in which Ajax plays", "The league in which Ajax plays is known for"),
    ],
)
def test_only_names_in_the_plural_take_it(name: str, said: str) -> None:
    assert sentence("{subject} is known for", name) == said


def sentence(wording: str, name: str) -> str:
    (result,) = duckdb.execute(f"SELECT {begun('w', 'n')} FROM (SELECT $1 AS w, $2 AS n)", [wording, name]).fetchall()
    return str(result[0])
