"""Questions that benchmarks ask of a memory of the made-up world, by how they are worded and by what they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from made_up_facts import LACKING, SCHEMA, Chain, MadeUpWorld, alone_in_other_words, other_words, woven

from kgedit.records.cases import Case

Questions = Mapping[str, tuple[list[str], list[tuple[Case, ...]]]]


def questions_of(world: MadeUpWorld, chains: Sequence[Chain]) -> Questions:
    """Questions by how they are worded, each with the edits that it needs."""
    two = [(chain.first, chain.second) for chain in chains]
    one = [(chain.first,) for chain in chains]
    in_other_words = [other_words(*cases) for cases in two]
    alone = [other_words(*cases) for cases in one]
    return {
        "two hops, as exported": ([world.nested(chain) for chain in chains], two),
        "two hops, rephrase": ([world.nested(chain, "rephrase") for chain in chains], two),
        "two hops, other words": (in_other_words, two),
        "two hops, woven, other words": ([woven(text, i) for i, text in enumerate(in_other_words)], two),
        "one hop, update": ([chain.first.question for chain in chains], one),
        "one hop, rephrase": ([world.asked(chain.first) for chain in chains], one),
        "one hop, other words": (alone, one),
        "one hop, woven, other words": ([woven(text, i) for i, text in enumerate(alone)], one),
    }


def unanswerable(world: MadeUpWorld, chains: Sequence[Chain]) -> dict[str, list[str]]:
    """Questions that a memory should say nothing to, by why.

    The last two ask a subject for a relation that others of its type have: nothing but the relation tells that the
    memory lacks it.
    """
    told = {(case.fact.subject, case.fact.property) for case in world.cases}
    subjects = {chain.first.fact.subject: chain.first.fact.subject_label for chain in chains}
    absent = [
        (subject, label, relation)
        for subject, label in subjects.items()
        for relation in dict.fromkeys(each for kind, each, _ in SCHEMA if subject.startswith(kind))
        if not {(other, relation) for other in world.bearers(label)} & told
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
            world.templates[relation]["rephrase"].replace("{subject}", label) for _, label, relation in absent
        ],
        "another relation of the same type, other words": [
            alone_in_other_words(relation, label) for _, label, relation in absent
        ],
    }
