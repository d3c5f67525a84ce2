"""A made-up world of people, places and organisations, for benchmarks of memories: facts that form two-hop chains.

Names consist of syllables; one in twenty is shared by two. `other_words` creates questions in words outside the
catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgedit.graph_memory.learning import LEARNED
from kgedit.records.cases import Case, Fact
from kgedit.wording.templates import template_table

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

TIMESTEP = "20210101_20220101"
_TYPES = tuple(_SHARES)
_KINDS = ("northern", "former", "young", "famous", "little", "wealthy", "coastal")
_AT_ONCE = 50_000
LACKING = ("P37", "P38", "P106", "P1412", "P166", "P30")
"""Relations of the catalogue that no fact of the world uses."""

_OTHER_WORDS = {
    "P6": ("Who runs the administration in {}?", "the person in charge of the cabinet of {}"),
    "P35": ("Who represents {} as its highest dignitary?", "the highest dignitary of the state of {}"),
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
"""Persona text around a question, which starts in lower case and has no question mark."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Two edits; the second starts at the object of the first."""

    first: Case
    second: Case


@dataclass(frozen=True)
class MadeUpWorld:
    """Facts as columns, and questions about them.

    Attributes:
        schema: Index into SCHEMA of each fact.
        subjects: Index of each fact's subject among the names of its type; `things` likewise for objects.
        names: Names by type.
        templates: Rows of the catalogue by property.
    """

    schema: NDArray[np.int64]
    subjects: NDArray[np.int64]
    things: NDArray[np.int64]
    names: dict[str, list[str]]
    templates: dict[str, dict[str, str]]

    def __len__(self) -> int:
        return len(self.schema)

    def case(self, index: int) -> Case:
        """One fact as an edit."""
        [row] = self.table(np.array([index])).to_pylist()
        fact = Fact(
            *(row[name] for name in ("subject", "subject_label", "property", "property_label", "object")), row["answer"]
        )
        return Case(
            case_id=row["case_id"],
            timestep=TIMESTEP,
            tag="new",
            fact=fact,
            question=row["question"],
            answer=row["answer"],
            cloze="",
            old_objects=(),
            old_answers=(),
            probes=(),
            subject_aliases=tuple(row["subject_aliases"]),
            subject_description=row["subject_description"],
        )

    def table(self, chosen: NDArray[np.int64], *, since: str = "2022-01-01") -> pa.Table:
        """Some facts, or all in chunks, with the schema kgedit.graph_memory.learning.LEARNED."""
        columns: dict[str, list[str]] = {name: [] for name in LEARNED.names}
        for place, subject, thing in zip(
            self.schema[chosen].tolist(), self.subjects[chosen].tolist(), self.things[chosen].tolist(), strict=True
        ):
            kind, relation, other = SCHEMA[place]
            label, answer, template = self.names[kind][subject], self.names[other][thing], self.templates[relation]
            for name, value in zip(
                LEARNED.names,
                (
                    *(f"{kind}{subject}:{relation}:{other}{thing}", f"{kind}{subject}", label, relation),
                    *(template["phrase"].removeprefix("the ").partition(" of {")[0], f"{other}{thing}", answer),
                    *(template["question"].replace("{subject}", label), answer, since, [], []),
                    *([alias_of(label, subject)], description_of(kind, subject)),
                ),
                strict=True,
            ):
                columns[name].append(value)  # type: ignore[arg-type]
        return pa.table(columns, LEARNED)

    def tables(self) -> Iterator[pa.Table]:
        """All facts, in chunks of several ten thousand."""
        for start in range(0, len(self), _AT_ONCE):
            yield self.table(np.arange(start, min(start + _AT_ONCE, len(self))))

    def superseded(self, chosen: NDArray[np.int64]) -> pa.Table:
        """Later edits of some facts, which replace the object with another one."""
        before = self.table(chosen)
        objects, answers = before["object"].to_pylist(), before["answer"].to_pylist()
        moved, labels = [*objects[1:], objects[0]], [*answers[1:], answers[0]]
        changes = {
            "case_id": [f"{case_id}:later" for case_id in before["case_id"].to_pylist()],
            "object": moved,
            "object_label": labels,
            "answer": labels,
            "since": ["2023-01-01"] * before.num_rows,
            "old_objects": [[name] for name in objects],
            "old_answers": [[label] for label in answers],
        }
        return pa.table([changes.get(name, before[name]) for name in LEARNED.names], LEARNED)

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Facts ordered by subject, and the keys of the subjects, both sorted."""
        keys = _key(
            np.array([_TYPES.index(SCHEMA[place][0]) for place in range(len(SCHEMA))])[self.schema], self.subjects
        )
        order = np.argsort(keys, kind="stable")
        return order, keys[order]

    def of_subject(self, kind: str, subject: int) -> list[int]:
        """Facts of a subject."""
        order, keys = self._order
        first, last = np.searchsorted(keys, [_key(_TYPES.index(kind), subject), _key(_TYPES.index(kind), subject + 1)])
        return sorted(order[first:last].tolist())

    def chains(self, count: int, seed: int, *, among: int | None = None) -> list[Chain]:
        """Random chains that do not return to the start; both facts are among the first `among`."""
        draw = np.random.default_rng(seed)
        most = among or len(self)
        found: list[Chain] = []
        for index in draw.permutation(most).tolist():
            kind, _, other = SCHEMA[self.schema[index]]
            seconds = [
                place
                for place in self.of_subject(other, int(self.things[index]))
                if place < most and (SCHEMA[self.schema[place]][2], self.things[place]) != (kind, self.subjects[index])
            ]
            if seconds:
                found.append(Chain(self.case(index), self.case(seconds[int(draw.integers(len(seconds)))])))
            if len(found) == count:
                break
        return found

    def holds(self, subject: str, relation: str) -> bool:
        """Whether a subject, given by its id, has a relation."""
        kind = subject.rstrip("0123456789")
        own = self.of_subject(kind, int(subject.removeprefix(kind)))
        return any(SCHEMA[self.schema[place]][1] == relation for place in own)

    @cached_property
    def _bearers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for kind, several in self.names.items():
            for number, name in enumerate(several):
                found.setdefault(name, []).append(f"{kind}{number}")
        return found

    def bearers(self, label: str) -> list[str]:
        """Ids of all entities with a name, with or without facts."""
        return self._bearers[label]

    def nested(self, chain: Chain, wording: str = "question") -> str:
        """A two-hop question in a wording of the catalogue."""
        first, second = chain.first.fact, chain.second.fact
        return self.nested_with(first.property, second.property, first.subject_label, wording)

    def nested_with(self, first: str, second: str, label: str, wording: str = "question") -> str:
        """A two-hop question about two arbitrary relations."""
        inner = self.templates[first]["phrase"].replace("{subject}", label)
        return self.templates[second][wording].replace("{subject}", inner)

    def asked(self, case: Case, wording: str = "rephrase") -> str:
        """A question about one edit in a wording of the catalogue."""
        return self.templates[case.fact.property][wording].replace("{subject}", case.fact.subject_label)


def other_words(*cases: Case) -> str:
    """A question about one edit, or two chained ones, in words outside the catalogue."""
    inner = cases[0].fact.subject_label
    for case in cases[:-1]:
        inner = _OTHER_WORDS[case.fact.property][1].format(inner)
    return _OTHER_WORDS[cases[-1].fact.property][0].format(inner)


def alone_in_other_words(relation: str, label: str) -> str:
    """A question about any relation of the world, in words outside the catalogue."""
    return _OTHER_WORDS[relation][0].format(label)


def woven(question: str, index: int) -> str:
    """A question surrounded by a persona's text."""
    return WOVEN[index % len(WOVEN)].format(question[:1].lower() + question[1:].rstrip("?"))


def alias_of(name: str, number: int) -> str:
    """Another name of the entities with a name."""
    return (
        f"{name[:3]}{_SYLLABLES[number % len(_SYLLABLES)]}x{_SYLLABLES[number // 80 % len(_SYLLABLES)]} {number % 9973}"
    )


def description_of(kind: str, number: int) -> str:
    """Text that distinguishes an entity from others with the same name."""
    return f"{_KINDS[number % len(_KINDS)]} {kind} of {_word([number // 7 % 80, number // 560 % 80])}"


def make_world(facts: int, seed: int = 0) -> MadeUpWorld:
    """A world of about the given number of facts."""
    draw = np.random.default_rng(seed)
    templates = {row["property"]: row for row in template_table().to_pylist() if not row["subject_class"]}
    names = _names(max(40, facts // 4), draw)
    counts = np.array([[len(names[kind]), len(names[other])] for kind, _, other in SCHEMA])
    drawn = draw.choice(len(SCHEMA), size=4 * facts, p=counts[:, 0] / counts[:, 0].sum())
    subjects = (draw.random(4 * facts) * counts[drawn, 0]).astype(np.int64)
    things = (draw.random(4 * facts) * counts[drawn, 1]).astype(np.int64)
    _, first = np.unique(drawn * int(counts.max()) + subjects, return_index=True)
    to_itself = np.array([kind == other for kind, _, other in SCHEMA])[drawn] & (subjects == things)
    kept = np.sort(first)
    kept = kept[~to_itself[kept]][:facts]
    return MadeUpWorld(drawn[kept], subjects[kept], things[kept], names, templates)


def _names(count: int, draw: np.random.Generator) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for kind, share in _SHARES.items():
        own = _some_names(kind, max(4, int(count * share)), draw)
        twins = draw.random(len(own)) < 0.05
        twins[0] = False
        names[kind] = [own[index - 1] if twin else own[index] for index, twin in enumerate(twins.tolist())]
    return names


def _some_names(kind: str, count: int, draw: np.random.Generator) -> list[str]:
    syllables = draw.integers(len(_SYLLABLES), size=(count, 8)).tolist()
    sizes = draw.integers(3, 5, size=(count, 2)).tolist()
    endings = draw.integers(len(_ENDINGS[kind]), size=count).tolist()
    return [
        _word(parts[: size[0]]) + _ENDINGS[kind][ending].format(second=_word(parts[4 : 4 + size[1]]))
        for parts, size, ending in zip(syllables, sizes, endings, strict=True)
    ]


def _word(syllables: list[int]) -> str:
    return "".join(_SYLLABLES[number] for number in syllables).capitalize()


def _key(kind: Any, number: Any) -> Any:
    return kind * 2**32 + number


def inverted(case: Case) -> str:
    """A question that names the object of a fact and asks for its subject."""
    return f"Of whom or what is {case.answer} the {case.fact.property_label}?"
