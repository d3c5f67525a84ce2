"""A made-up world of people, places and organisations, for benchmarks of memories: edits that chain into two hops.

Names are made of syllables; one in twenty is borne by two. `other_words` asks in words that no catalogue has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgedit.prompts.templates import template_table
from kgedit.records.cases import Case, Fact

_SYLLABLES = [
    consonant + vowel for consonant in (*"bdfghjklmnprstvz", "br", "dr", "gr", "st", "tr") for vowel in "aeio"
]
_ENDINGS = {
    "person": (" {second}",),
    "city": ("ville", "burg", "stad", "mouth"),
    "country": ("ia", "land", "stan"),
    "company": (" Holdings", " Works", " Group"),
    "club": (" United", " Rovers", " Athletic"),
    "party": (" People's Party", " Democrats", " Alliance"),
    "university": (" University", " Institute of Technology"),
    "venue": (" Arena", " Park"),
}
_SHARES = {
    "person": 0.6,
    "city": 0.12,
    "company": 0.1,
    "club": 0.08,
    "party": 0.03,
    "university": 0.03,
    "venue": 0.03,
    "country": 0.01,
}
SCHEMA = (
    ("country", "P6", "person"),
    ("country", "P35", "person"),
    ("country", "P36", "city"),
    ("city", "P17", "country"),
    ("city", "P6", "person"),
    ("person", "P19", "city"),
    ("person", "P26", "person"),
    ("person", "P27", "country"),
    ("person", "P69", "university"),
    ("person", "P102", "party"),
    ("person", "P108", "company"),
    ("person", "P54", "club"),
    ("company", "P169", "person"),
    ("company", "P112", "person"),
    ("company", "P159", "city"),
    ("company", "P749", "company"),
    ("club", "P286", "person"),
    ("club", "P115", "venue"),
    ("party", "P488", "person"),
    ("university", "P159", "city"),
    ("venue", "P127", "company"),
)
"""Type of the subject, relation, type of the object."""

LACKING = ("P37", "P38", "P106", "P1412", "P166", "P30")
"""Relations of the catalogue that no fact of the world has."""

_OTHER_WORDS = {
    "P6": ("Who runs the administration in {}?", "the person in charge of the cabinet of {}"),
    "P35": ("Who represents {} as its highest dignitary?", "whoever stands first in the state of {}"),
    "P36": ("Which city is the seat of {}'s national government?", "the city from which {} is ruled"),
    "P17": ("On which nation's soil does {} lie?", "the nation in which {} lies"),
    "P19": ("In which town did {} come into the world?", "the town where {} came into the world"),
    "P26": ("Whom did {} marry?", "the person to whom {} is married"),
    "P27": ("Whose passport does {} hold?", "the nation whose national {} is"),
    "P69": ("Where did {} study?", "the school from which {} graduated"),
    "P102": ("In politics, which group does {} stand with?", "the political group that {} belongs to"),
    "P108": ("Who pays {}'s salary?", "the firm that {} works for"),
    "P54": ("Whose shirt does {} wear on the pitch?", "the side that {} plays for"),
    "P169": ("Who is the top manager at {}?", "the boss of {}"),
    "P112": ("Who started {}?", "the one who started {}"),
    "P159": ("In what place does {} have its head office?", "the place where {} has its main office"),
    "P749": ("Which bigger company does {} belong to?", "the group that controls {}"),
    "P286": ("Who trains {}?", "the trainer of {}"),
    "P115": ("At which ground does {} play its home games?", "the ground where {} plays at home"),
    "P488": ("Who presides over {}?", "the one who presides over {}"),
    "P127": ("To whom does {} belong?", "the one to whom {} belongs"),
}
WOVEN = (
    "Right, between you and me and the lamp post, {}? I have been wondering all week.",
    "My notebook is open and the coffee is cold; so tell me, {}? The file says nothing.",
    "Arr, afore we hoist the sails, {}? Speak up, matey!",
    "Consider, friend, how little we know of anything; still, {}? Or can it not be known?",
)
"""Persona's talk around a question that begins in lower case and has lost its question mark."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Two edits of which the second begins where the first ends."""

    first: Case
    second: Case


@dataclass(frozen=True)
class MadeUpWorld:
    """Edits, each a fact of its own, and how to ask for them."""

    cases: tuple[Case, ...]
    templates: dict[str, dict[str, str]]

    def chains(self, count: int, seed: int) -> list[Chain]:
        """Random chains, both objects known by an edit; never back to the start."""
        draw = np.random.default_rng(seed)
        of_subject: dict[str, list[int]] = {}
        for index, case in enumerate(self.cases):
            of_subject.setdefault(case.fact.subject, []).append(index)
        found: list[Chain] = []
        for index in draw.permutation(len(self.cases)).tolist():
            first = self.cases[index]
            seconds = [
                self.cases[other]
                for other in of_subject.get(first.fact.object, ())
                if self.cases[other].fact.object != first.fact.subject
            ]
            if seconds:
                found.append(Chain(first, seconds[int(draw.integers(len(seconds)))]))
            if len(found) == count:
                break
        return found

    @cached_property
    def _bearers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for case in self.cases:
            found.setdefault(case.fact.subject_label, []).append(case.fact.subject)
        return found

    def bearers(self, label: str) -> list[str]:
        """Ids of the subjects of a name."""
        return self._bearers[label]

    def nested(self, chain: Chain, wording: str = "question") -> str:
        """A two-hop question in a wording of the catalogue."""
        phrase = self.templates[chain.first.fact.property]["phrase"]
        inner = phrase.replace("{subject}", chain.first.fact.subject_label)
        return self.templates[chain.second.fact.property][wording].replace("{subject}", inner)

    def asked(self, case: Case, wording: str = "rephrase") -> str:
        """A question for one edit in a wording of the catalogue."""
        return self.templates[case.fact.property][wording].replace("{subject}", case.fact.subject_label)


def other_words(*cases: Case) -> str:
    """One edit, or two that chain, asked in words that no catalogue has."""
    inner = cases[0].fact.subject_label
    for case in cases[:-1]:
        inner = _OTHER_WORDS[case.fact.property][1].format(inner)
    return _OTHER_WORDS[cases[-1].fact.property][0].format(inner)


def alone_in_other_words(relation: str, label: str) -> str:
    """A question about any relation of the world in words that no catalogue has."""
    return _OTHER_WORDS[relation][0].format(label)


def woven(question: str, index: int) -> str:
    """A question with a persona's talk around it."""
    return WOVEN[index % len(WOVEN)].format(question[:1].lower() + question[1:].rstrip("?"))


def make_world(facts: int, seed: int = 0) -> MadeUpWorld:
    """A world of about that many facts."""
    draw = np.random.default_rng(seed)
    templates = {row["property"]: row for row in template_table().to_pylist()}
    names = _names(max(40, facts // 4), draw)
    cases = tuple(_cases(names, facts, templates, draw))
    return MadeUpWorld(cases, templates)


def _names(count: int, draw: np.random.Generator) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for kind, share in _SHARES.items():
        own = [_name(kind, draw) for _ in range(max(4, int(count * share)))]
        twins = draw.random(len(own)) < 0.05
        twins[0] = False
        names[kind] = [own[index - 1] if twin else own[index] for index, twin in enumerate(twins.tolist())]
    return names


def _name(kind: str, draw: np.random.Generator) -> str:
    def word(least: int) -> str:
        return "".join(draw.choice(_SYLLABLES, size=int(draw.integers(least, least + 2)))).capitalize()

    endings = _ENDINGS[kind]
    return word(3) + endings[int(draw.integers(len(endings)))].format(second=word(3))


def _cases(
    names: dict[str, list[str]], facts: int, templates: dict[str, dict[str, str]], draw: np.random.Generator
) -> Iterator[Case]:
    told: set[tuple[str, str]] = set()
    weights = np.array([len(names[kind]) for kind, _, _ in SCHEMA], dtype=float)
    most = int(weights.sum())
    for index in draw.choice(len(SCHEMA), size=4 * facts, p=weights / weights.sum()).tolist():
        if len(told) >= min(facts, most):
            break
        kind, relation, other = SCHEMA[index]
        subject, thing = int(draw.integers(len(names[kind]))), int(draw.integers(len(names[other])))
        if (f"{kind}{subject}", relation) in told or (kind, subject) == (other, thing):
            continue
        told.add((f"{kind}{subject}", relation))
        yield _case(kind, subject, relation, other, thing, names, templates[relation])


def _case(
    kind: str,
    subject: int,
    relation: str,
    other: str,
    thing: int,
    names: dict[str, list[str]],
    template: dict[str, str],
) -> Case:
    label, answer = names[kind][subject], names[other][thing]
    fact = Fact(f"{kind}{subject}", label, relation, template["template"], f"{other}{thing}", answer)
    return Case(
        case_id=f"{fact.subject}:{relation}:{fact.object}",
        timestep="20210101_20220101",
        tag="new",
        fact=replace(fact, property_label=template["phrase"].removeprefix("the ").partition(" of {")[0]),
        question=template["question"].replace("{subject}", label),
        answer=answer,
        cloze="",
        old_objects=(),
        old_answers=(),
        probes=(),
    )
