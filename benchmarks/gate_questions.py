"""Questions for fitting a memory's gate: facts in the memory, in unseen wordings, and facts missing from it.

Made-up subjects have relations of the catalogue. The memory knows a relation by its question, its first rephrase and
its phrase; questions use the other rephrases, personas, and Wikidata aliases that share no word with these. Relations
used in published results (`REPORTED`: those of benchmarks/memory.py, of the bundled sample and of the pat slices) are
never used in questions.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from made_up_facts import LACKING, SCHEMA

from kgedit.graph_memory.relations import SLOT, CatalogueWordings, content_stems
from kgedit.llm.embeddings import Embedder
from kgedit.records.cases import Case, Fact
from kgedit.sample import read_world
from kgedit.wording.personas import voices

PAT = tuple(
    f"P{number}"
    for number in (6, 17, 19, 26, 27, 35, 39, 54, 69, 102, 108, 112, 115, 127, 159, 169, 286, 488, 1037, 1365)
)
SAMPLE = tuple(name for name in read_world().entities if name.startswith("P"))
REPORTED = frozenset((*(relation for _, relation, _ in SCHEMA), *LACKING, *PAT, *SAMPLE))
_PREPOSITIONS = frozenset(("by", "of", "in", "at", "to", "for", "with", "from", "on", "as"))
_PEOPLE = frozenset(("person", "agent"))
FRAMES = (
    "{q}",
    "{q}",
    "Before the train leaves, one more thing: {lower}? Then I am off.",
    "Listen, I lost a bet over this last night, so {lower}? Do not laugh.",
    "My neighbour, who knows everything, would not say, {lower}? Odd fellow.",
    "{q} Take your time; the kettle is on and the rain will not stop.",
)


class HalfCatalogue(CatalogueWordings):
    """The catalogue without the wordings used in questions, and without some of its relations.

    Args:
        embed: Computes the vectors of texts.
        unknown: Properties missing from all catalogues, to simulate questions about a property without a template.
    """

    def __init__(self, embed: Embedder, unknown: frozenset[str]) -> None:
        super().__init__(embed)
        self._unknown = unknown

    @cached_property
    def relations(self) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
        """First row of each known property, shortened."""
        return {
            name: ({**rows[0], "rephrases": rows[0]["rephrases"][:1], "clozes": rows[0]["clozes"][:1]},)
            for name, rows in CatalogueWordings(self._embed).relations.items()
            if name not in self._unknown
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for the gate.

    Attributes:
        kind: Kind of wording, and missing facts if any.
        text: The question.
        needed: Ids of the edits that it needs; empty if the memory lacks the fact.
        relation: Relation of the question; questions about one relation are worded alike and form one cluster in
            intervals.
    """

    kind: str
    text: str
    needed: frozenset[str]
    relation: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """Relations available for questions.

    Attributes:
        rows: First row of each relation in the catalogue.
        near: For each relation, the others by descending similarity of wording.
        aliases: Wikidata's aliases of each relation that share no word with its wordings, if there are any.
    """

    rows: Mapping[str, Mapping[str, Any]]
    near: Mapping[str, Sequence[str]]
    aliases: Mapping[str, Sequence[str]]


def make_pools(embed: Embedder, aliases: Mapping[str, Sequence[str]], seed: int) -> tuple[Pool, Pool, Pool]:
    """Disjoint pools of relations: two for fitting and testing each other's fit, and the reported ones."""
    catalogue = CatalogueWordings(embed)
    names = [name for name, rows in catalogue.relations.items() if name not in REPORTED and len(rows[0]["rephrases"])]
    chosen = np.random.default_rng(seed).random(len(names)) < 0.5
    vectors = _questions(catalogue, names)
    first, second = (_pool(catalogue, names, vectors, each) for each in (chosen, ~chosen))
    relations = [name for name in catalogue.relations if name in REPORTED]
    third = _pool(catalogue, relations, _questions(catalogue, relations), np.ones(len(relations), dtype=bool))
    first, second, third = (replace(pool, aliases=_unlike(pool, aliases)) for pool in (first, second, third))
    return first, second, third


def _questions(catalogue: CatalogueWordings, names: Sequence[str]) -> Any:
    """Vectors of the properties' own questions."""
    places = [catalogue.places[name] for name in names]
    return catalogue.vectors.asked[catalogue.vectors.starts[places]]


def read_aliases(path: Path | None) -> dict[str, list[str]]:
    """English aliases of properties from a KGTK table (node1 as PID, node2 as 'text'@en); empty without a file."""
    aliases: dict[str, list[str]] = {}
    if path is not None:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                name, _, text = line.rstrip("\n").partition("\t")
                if text.endswith("'@en"):
                    aliases.setdefault(name, []).append(text[1:-4])
    return aliases


def _unlike(pool: Pool, aliases: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    found = {}
    for name, row in pool.rows.items():
        known = set(content_stems(" ".join([row["question"], *row["rephrases"], row["phrase"], row["label"] or ""])))
        own = [each for each in aliases.get(name, ()) if (stems := content_stems(each)) and not known & set(stems)]
        found[name] = [each for each in own if len(each) > 3 and len(each.split()) < 5]
    return found


def _pool(catalogue: CatalogueWordings, names: list[str], vectors: Any, chosen: Any) -> Pool:
    own = [name for name, taken in zip(names, chosen.tolist(), strict=True) if taken]
    order = np.argsort(-(vectors[chosen] @ vectors[chosen].T), axis=1, kind="stable")
    near = {
        name: [own[place] for place in places if own[place] != name] for name, places in zip(own, order, strict=True)
    }
    return Pool({name: catalogue.relations[name][0] for name in own}, near, {})


def make_facts(pool: Pool, subjects: int, seed: int) -> tuple[list[Case], dict[str, list[Case]]]:
    """Made-up subjects with facts, and the facts of these facts' objects."""
    draw = np.random.default_rng(seed)
    cases: list[Case] = []
    of_subject: dict[str, list[Case]] = {}
    for index in range(subjects):
        first = list(_facts(pool, f"s{index}", _name(draw), int(draw.integers(1, 6)), draw))
        second = [
            case
            for fact in first[:2]
            for case in _facts(pool, fact.fact.object, fact.fact.object_label, int(draw.integers(1, 3)), draw)
        ]
        for case in first + second:
            of_subject.setdefault(case.fact.subject, []).append(case)
        cases += first + second
    return cases, of_subject


def _facts(pool: Pool, subject: str, label: str, count: int, draw: np.random.Generator) -> Iterator[Case]:
    names = list(pool.rows)
    start = names[int(draw.integers(len(names)))]
    others = [*pool.near[start][:20], *(names[place] for place in draw.integers(len(names), size=20))]
    relations = dict.fromkeys([start, *(others[place] for place in draw.permutation(len(others))[: count - 1])])
    for relation in relations:
        thing, row = f"{subject}-{relation}", pool.rows[relation]
        fact = Fact(subject, label, relation, row["label"] or relation, thing, _name(draw))
        yield Case(
            case_id=f"{subject}:{relation}:{thing}",
            timestep="20210101_20220101",
            tag="new",
            fact=fact,
            question=row["question"].replace(SLOT, label),
            answer=fact.object_label,
            cloze="",
            old_objects=(),
            old_answers=(),
            probes=(),
        )


def _name(draw: np.random.Generator) -> str:
    letters = "".join(draw.choice([*"aeiou"], 3).tolist()), "".join(draw.choice([*"bdfgklmnprstvz"], 4).tolist())
    return "".join(a + b for a, b in zip(letters[1], (*letters[0], "on"), strict=True)).capitalize()


def make_questions(pool: Pool, of_subject: Mapping[str, list[Case]], seed: int) -> Iterator[Asked]:
    """Questions about every first subject, with one and two hops, about present and missing facts."""
    draw = np.random.default_rng(seed)
    for subject, cases in of_subject.items():
        if "-" in subject:
            continue
        own = {case.fact.property for case in cases}
        case = cases[int(draw.integers(len(cases)))]
        label = case.fact.subject_label
        for kind, text in _worded(pool, (case.fact.property,), label, draw):
            yield Asked(f"one hop, {kind}", text, frozenset({case.case_id}), case.fact.property)
        for _ in range(2):
            absent = _absent(pool, own, draw)
            for kind, text in _worded(pool, (absent,), label, draw):
                yield Asked(f"another relation, {kind}", text, frozenset(), absent)
        seconds = [(first, second) for first in cases for second in of_subject.get(first.fact.object, ())]
        if not seconds:
            continue
        first, second = seconds[int(draw.integers(len(seconds)))]
        for kind, text in _worded(pool, (first.fact.property, second.fact.property), label, draw):
            yield Asked(f"two hops, {kind}", text, frozenset({first.case_id, second.case_id}), second.fact.property)
        ends = sorted({after.fact.property for case in cases for after in of_subject.get(case.fact.object, ())} - own)
        if ends:
            end = ends[int(draw.integers(len(ends)))]
            for kind, text in _worded(pool, (end,), label, draw):
                yield Asked(f"another relation, of what it leads to, {kind}", text, frozenset(), end)
        absent = _absent(pool, own, draw)
        for kind, text in _worded(pool, (absent, second.fact.property), label, draw):
            yield Asked(f"two hops, another first relation, {kind}", text, frozenset(), absent)


def _absent(pool: Pool, own: set[str], draw: np.random.Generator) -> str:
    """A relation that a subject lacks; half of the time one worded like a relation that it has."""
    names = list(pool.rows)
    if draw.random() < 0.5:
        some = sorted(own)[int(draw.integers(len(own)))]
        names = list(pool.near[some][:10])
    lacking = [name for name in names if name not in own]
    return lacking[int(draw.integers(len(lacking)))]


def _worded(pool: Pool, relations: tuple[str, ...], label: str, draw: np.random.Generator) -> Iterator[tuple[str, str]]:
    """A path in held-out wordings: the catalogue's, and a persona's."""
    phrase = SLOT
    for relation in relations[:-1]:
        phrase = pool.rows[relation]["phrase"].replace(SLOT, phrase)
    last = pool.rows[relations[-1]]
    asking = last["rephrases"][1:] or last["rephrases"]
    plain = asking[int(draw.integers(len(asking)))].replace(SLOT, phrase)
    speakers = sorted(voices(), key=lambda voice: _overlap(last["phrase"], voice.relation(last["phrase"])))
    speaker = speakers[int(draw.integers(2 if draw.random() < 0.7 else len(speakers)))]
    swapped = ", other words" if _overlap(last["phrase"], speaker.relation(last["phrase"])) < 0.5 else ""
    voiced = speaker.ask(last["phrase"].replace(SLOT, phrase), last["answer_type"], int(draw.integers(100)))
    asked = [("reworded", plain), (f"persona{swapped}", voiced)]
    if pool.aliases[relations[-1]]:
        named = pool.aliases[relations[-1]]
        alias = named[int(draw.integers(len(named)))]
        asked.append(("alias", _by_alias(alias, last["answer_type"], phrase)))
        asked.append(
            ("persona, alias", speaker.ask(f"the {alias} of {phrase}", last["answer_type"], int(draw.integers(100))))
        )
    for kind, text in asked:
        frame = FRAMES[int(draw.integers(len(FRAMES)))]
        lower = (text[:1].lower() + text[1:]).rstrip("?")
        yield f"{kind}{', woven' if frame != FRAMES[0] else ''}", frame.format(q=text, lower=lower).replace(SLOT, label)


def _by_alias(alias: str, answer: str, phrase: str) -> str:
    if alias.rsplit(maxsplit=1)[-1] in _PREPOSITIONS:
        return f"{phrase[:1].upper() + phrase[1:]} is {alias} {'whom' if answer in _PEOPLE else 'what'}?"
    return f"{'Who' if answer in _PEOPLE else 'What'} is the {alias} of {phrase}?"


def _overlap(phrase: str, said: str) -> float:
    """Share of a phrase's content words that are in a persona's version of it."""
    stems = content_stems(phrase.replace(SLOT, " "))
    return sum(stem in content_stems(said.replace(SLOT, " ")) for stem in stems) / max(1, len(stems))
