"""Questions to a memory of the made-up world for benchmarks, by wording and by needed facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from made_up_facts import (
    LACKING,
    SCHEMA,
    Chain,
    MadeUpWorld,
    alias_of,
    alone_in_other_words,
    description_of,
    inverted,
    other_words,
    woven,
)

from kgedit.records.cases import Case

Questions = Mapping[str, tuple[list[str], list[tuple[str, ...]]]]
"""By wording: questions, and the ids of the edits that each needs."""


@dataclass(frozen=True, slots=True)
class Probing:
    """Unusual questions.

    Attributes:
        name: Kind of unusual question.
        questions: Questions as sent.
        needed: Ids of the edits that each question needs.
        as_of: Date passed to the memory; "" means the date in the questions, if any.
    """

    name: str
    questions: list[str]
    needed: list[tuple[str, ...]]
    as_of: str = ""


def questions_of(world: MadeUpWorld, chains: Sequence[Chain]) -> Questions:
    """Questions of one and two hops."""
    two = [(chain.first, chain.second) for chain in chains]
    one = [(chain.first,) for chain in chains]
    in_other_words = [other_words(*cases) for cases in two]
    alone = [other_words(*cases) for cases in one]
    worded: dict[str, tuple[list[str], Sequence[tuple[Case, ...]]]] = {
        "two hops, as exported": ([world.nested(chain) for chain in chains], two),
        "two hops, rephrase": ([world.nested(chain, "rephrase") for chain in chains], two),
        "two hops, other words": (in_other_words, two),
        "two hops, woven, other words": ([woven(text, i) for i, text in enumerate(in_other_words)], two),
        "one hop, update": ([chain.first.question for chain in chains], one),
        "one hop, rephrase": ([world.asked(chain.first) for chain in chains], one),
        "one hop, other words": (alone, one),
        "one hop, woven, other words": ([woven(text, i) for i, text in enumerate(alone)], one),
    }
    return {
        name: (texts, [tuple(case.case_id for case in cases) for cases in needed])
        for name, (texts, needed) in worded.items()
    }


def unanswerable(world: MadeUpWorld, chains: Sequence[Chain]) -> dict[str, list[str]]:
    """Questions for which a memory should return nothing, by reason.

    Those of the same type ask for a relation that the subject lacks and others of its type have: only the relation
    shows that the memory lacks the fact.
    """
    subjects = {chain.first.fact.subject: chain.first.fact.subject_label for chain in chains}
    absent = [
        (label, relation)
        for subject, label in subjects.items()
        for relation in dict.fromkeys(each for kind, each, _ in SCHEMA if subject.startswith(kind))
        if not any(world.holds(other, relation) for other in world.bearers(label))
    ]
    in_other_words = [alone_in_other_words(relation, label) for label, relation in absent]
    first_unknown = [
        world.nested_with(gap, chain.second.fact.property, chain.first.fact.subject_label)
        for chain in chains
        if not _is_named_twice(world, chain.first)
        and (gap := _gap(world, chain.first.fact.subject, _kind(chain.second.fact.subject)))
    ]
    return {
        "unknown subject": [
            world.asked(chain.first, "question").replace(chain.first.fact.subject_label, f"Unheardof {index}")
            for index, chain in enumerate(chains)
        ],
        "another relation": [
            world.templates[relation]["question"].replace("{subject}", label)
            for label in subjects.values()
            for relation in LACKING
        ],
        "another relation of the same type": [
            world.templates[relation]["rephrase"].replace("{subject}", label) for label, relation in absent
        ],
        "another relation of the same type, other words": in_other_words,
        "two hops, the first is unknown": first_unknown,
        "another relation of the same type, woven": [woven(text, i) for i, text in enumerate(in_other_words)],
    }


def special_questions(world: MadeUpWorld, chains: Sequence[Chain], seed: int) -> Iterator[Probing]:
    """By alias, misspelt, with ambiguous names, against the direction of facts, and with a date."""
    draw = np.random.default_rng(seed)
    one = [(chain.first.case_id,) for chain in chains]
    two = [(chain.first.case_id, chain.second.case_id) for chain in chains]
    labels = [chain.first.fact.subject_label for chain in chains]
    asked = [chain.first.question for chain in chains]
    nested = [world.nested(chain) for chain in chains]
    other_names = [alias_of(label, _number(chain.first)) for label, chain in zip(labels, chains, strict=True)]
    yield Probing("one hop, by alias", _renamed(asked, labels, other_names), one)
    yield Probing("two hops, by alias", _renamed(nested, labels, other_names), two)
    wrong = [_misspelt(label, draw) for label in labels]
    yield Probing("one hop, one wrong letter", _renamed(asked, labels, wrong), one)
    yield Probing("two hops, one wrong letter", _renamed(nested, labels, wrong), two)
    twins = [chain.first for chain in chains if _is_shared(world, chain.first)]
    needed = [(case.case_id,) for case in twins]
    yield Probing("namesakes with that relation", [case.question for case in twins], needed)
    yield Probing(
        "namesakes, told apart by a description",
        [
            case.question.replace(case.fact.subject_label, f"{case.fact.subject_label}, the {_described(case)},")
            for case in twins
        ],
        needed,
    )
    known = [(chain.first, gap) for chain in chains if (gap := _gap(world, chain.first.fact.object))]
    half = [world.nested_with(first.fact.property, gap, first.fact.subject_label) for first, gap in known]
    yield Probing("two hops, only the first is known", half, [(first.case_id,) for first, _ in known])
    yield Probing("inverse: the subject is asked for", [inverted(chain.first) for chain in chains], one)
    yield Probing("as of a later date", [f"As of March 2023, {text}" for text in asked], one)
    yield Probing("as of an earlier date (nothing held)", [text.replace("?", " in 2019?") for text in asked], one)
    yield Probing("two hops as of a later date", nested, two, as_of="2023")


def _is_shared(world: MadeUpWorld, case: Case) -> bool:
    """Whether several entities with the subject's name have the relation."""
    return sum(world.holds(other, case.fact.property) for other in world.bearers(case.fact.subject_label)) > 1


def _is_named_twice(world: MadeUpWorld, case: Case) -> bool:
    return len(world.bearers(case.fact.subject_label)) > 1


def _kind(thing: str) -> str:
    return thing.rstrip("0123456789")


def _gap(world: MadeUpWorld, thing: str, leading_to: str = "") -> str:
    """A relation that an entity lacks and others of its type have, optionally one that leads to a type; "" if none."""
    lacking = (
        each
        for own, each, other in SCHEMA
        if own == _kind(thing) and leading_to in ("", other) and not world.holds(thing, each)
    )
    return next(lacking, "")


def _number(case: Case) -> int:
    return int(case.fact.subject.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _described(case: Case) -> str:
    number = _number(case)
    return description_of(case.fact.subject.removesuffix(str(number)), number)


def _renamed(texts: Sequence[str], names: Sequence[str], others: Sequence[str]) -> list[str]:
    return [text.replace(name, other) for text, name, other in zip(texts, names, others, strict=True)]


def _misspelt(name: str, draw: np.random.Generator) -> str:
    """A name with a letter of its first word dropped, doubled, swapped with the next, or replaced."""
    at, how = int(draw.integers(1, len(name.split(maxsplit=1)[0]) - 1)), int(draw.integers(4))
    before, letter, after = name[:at], name[at], name[at + 1 :]
    wrong = (after, f"{letter}{letter}{after}", f"{after[:1]}{letter}{after[1:]}", f"q{after}")
    return before + wrong[how]
