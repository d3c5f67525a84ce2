"""Names with a word that says which entity of that name is meant, or that another one is: "Vienna, Virginia".

A name after a comma may be a part of the name or the next item of a list, so that only countries and their parts count,
and only for an entity whose country is known. What is near an entity is another one: "the mayor of a village near X".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from kgedit.errors import KgeditError
from kgedit.names.index import name_key
from kgedit.resources import data_folder

_QUALIFIER = re.compile(
    r"^(?P<link>, | \(|, in | in | of (?:the )?)(?P<words>[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,4})"
)
_ENDS_WITH = re.compile(r"^.* (?:of|in) (?:the )?")
_LIST_GOES_ON = re.compile(r"^,? (?:and|or|&) |^, [A-ZÀ-Þ]")
_OF = re.compile(r"\b(?:of|at|for) (?:the )?(?:(?:city|town|village) of )?$", re.IGNORECASE)
_BESIDE = re.compile(
    r"\b(?:near|nearby|outside|bordering|close to|next to|adjacent to|opposite|far from"
    r"|the outskirts of|the vicinity of"
    r"|(?:north|south|east|west)(?:-?(?:east|west))? of|(?:km|miles?|kilomet(?:re|er)s?|minutes|hours?|drive) from)"
    r" (?:the )?(?:(?:city|town|village) of )?$",
    re.IGNORECASE,
)
_SECOND_TEAM = (
    r"(?:under-?\d+s?|u-?\d\d|reserves|youth|academy|juniors|veterans|(?:b|second|reserve) (?:team|side|squad))"
)
_PART_BEFORE = re.compile(rf"\b{_SECOND_TEAM}(?: team| side| squad)? (?:of|at|from) (?:the )?$", re.IGNORECASE)
_PART_AFTER = re.compile(rf"^(?:['’]s?|s)? {_SECOND_TEAM}\b", re.IGNORECASE)
_EDITED = re.compile(
    r"^\W*(?:please |can you |could you )*(?:correct|fix|shorten|summari[sz]e|translate|proofread|rewrite|rephrase"
    r"|paraphrase)(?: (?:the|this|my|these|that|it|into|to)\b[^:\"“]*)? ?[:\"“]",
    re.IGNORECASE,
)
"""Instructions about a text, in which a name asks for nothing."""
_WOMEN = r"(?:wom[ae]n|ladies|girls|femen[ií]n?[oa]?|f[eé]minines?|femminile|frauen)"
_SPORT = (
    r"(?:(?:hand|basket|volley|base|net)ball|futsal|beach (?:soccer|football)|(?:ice |field )?hockey|rugby|cricket"
    r"|water polo|e-?sports|table tennis|cycling|rowing|swimming|athletics|chess)"
)
_SIDE = r"(?:team|side|squad|section|department|coach|manager|trainer)"
_FOOTBALL = re.compile(r"football|soccer|f[uú]tbol|\b(?:A\.?)?F\.? ?C\b|\bCF\b", re.IGNORECASE)
_OWN = re.compile(
    r"\b(?:my|our|his|her|their) (?:\w+ )?"
    r"(?:dog|puppy|cat|kitten|parrot|budgie|hamster|rabbit|horse|pony|goldfish|tortoise|pet|baby|boat|yacht|car|bike|robot|doll)"
    r"(?:,| is called| is named| named| called|'s name is)? $",
    re.IGNORECASE,
)
"""Things that people name after something."""


def means_another(text: str, start: int, end: int) -> bool:
    """Whether the name in a half-open range stands for something else: what is near it, a part of it, or a namesake.

    "A village near Vienna", "Vienna's under-19s", "my cat Vienna".
    """
    before = text[:start]
    return (
        _EDITED.search(before) is not None
        or any(pattern.search(before) is not None for pattern in (_BESIDE, _PART_BEFORE, _OWN))
        or _PART_AFTER.match(text[end:]) is not None
    )


def is_another_side(text: str, start: int, end: int, labels: Sequence[str]) -> bool:
    """Whether the words beside a club's name mean its women's team or another sport, which no label does.

    "Who coaches Arsenal's women?", "the handball team of PSG".
    """
    before, after = text[:start], text[end:]

    def beside(kind: str) -> bool:
        return (
            re.match(rf"(?:['’]s?|s)? (?:national )?{kind}\b", after, re.IGNORECASE) is not None
            or re.search(
                rf"\b{kind}(?:['’]?s?|s['’]) (?:national )?(?:{_SIDE} )?(?:of|at|from|for) (?:the )?"
                r"(?:[A-Z.]{1,5} )?$",
                before,
                re.IGNORECASE,
            )
            is not None
        )

    if beside(_WOMEN) and not any(re.search(_WOMEN, label, re.IGNORECASE) for label in labels):
        return True
    return all(_FOOTBALL.search(label) for label in labels) and beside(_SPORT)


def qualifying_countries(text: str, start: int, end: int) -> frozenset[str]:
    """Countries that the words after a name allow for it, by their labels' keys; empty if they say nothing."""
    found = _QUALIFIER.match(text[end:])
    if found is None or (found["link"] == " in " and _OF.search(text[:start]) is None):
        return frozenset()
    words = found["words"].split(" ")
    for size in range(len(words), 0, -1):
        written = " ".join(words[:size]).rstrip(".?!'’")
        # A code is a word in lower case: "Vienna, or …".
        countries = _by_code().get(written) or _by_name().get(name_key(written), frozenset())
        if countries and (written[0].isupper() or text.islower()):
            rest = text[end + found.start("words") + len(written) :]
            further = qualifying_countries(text, end + found.start("words"), end + found.start("words") + len(written))
            is_list = _LIST_GOES_ON.search(rest) is not None and not further & countries
            return frozenset() if is_list else countries
    return frozenset()


def country_keys(labels: Iterable[str]) -> frozenset[str]:
    """Keys of the countries among some labels, and of those that others end with: "city of the United States"."""
    named = ((label, _ENDS_WITH.sub("", label)) for label in labels)
    return frozenset(key for several in named for name in several for key in _by_name().get(name_key(name), ()))


@cache
def _by_name() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for country, entry in _shipped()["countries"].items():
        for name in (country, *entry.get("names", ()), *entry.get("parts", ())):
            found.setdefault(name_key(name), set()).add(name_key(country))
    for names in _shipped()["others"]:
        country, *others = names.split(" / ")
        for name in (country, *others):
            found.setdefault(name_key(name), set()).add(name_key(country))
    return {name: frozenset(countries) for name, countries in found.items()}


@cache
def _by_code() -> Mapping[str, frozenset[str]]:
    countries = _shipped()["countries"].items()
    return {code: frozenset([name_key(country)]) for country, entry in countries for code in entry.get("codes", ())}


@cache
def _shipped() -> Mapping[str, Any]:
    path = data_folder("prompts") / "memory" / "regions.yaml"
    try:
        entries: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return {part: entries[part] for part in ("countries", "others")}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise KgeditError(f"{path} holds no countries ({error}). Install kgedit again.") from error
