"""A benchmark case: one edit with every probe of it. Bulk data stays columnar; cases are few."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Axis = Literal[
    "update",
    "rephrase",
    "personas",
    "alias",
    "mhop",
    "mhop_rephrase",
    "hop",
    "consequence",
    "locality",
    "random_locality",
]
"""What a probe tests. Five are WikiBigEdit's (section 3); mhop_rephrase asks its two-hop questions in other words.

hop asks for each fact of a chain alone (MQuAKE's single hops). Two are KnowEdit's: alias (the subject by another name)
and consequence (what the fact alone implies). locality asks of facts near the edit, random_locality of facts drawn by
lot (WikiFactDiff, section 5).
"""

AXES: tuple[Axis, ...] = (
    "update",
    "rephrase",
    "personas",
    "alias",
    "mhop",
    "mhop_rephrase",
    "hop",
    "consequence",
    "locality",
    "random_locality",
)

EDIT_AXES: tuple[Axis, ...] = ("update", "rephrase", "personas", "alias")
"""That ask for the edited fact itself: there, and only there, its old value is an old answer."""

TWO_HOP_AXES: tuple[Axis, ...] = ("mhop", "mhop_rephrase")
"""That need the edited fact and at least one more: two hops, and MQuAKE's chains of up to four."""

LOCALITY_AXES: tuple[Axis, ...] = ("locality", "random_locality")
"""Of facts that the edit must leave as they are."""


SCENARIOS = ("ReplaceObject", "Archive", "AddObject", "AddRelation", "AddEntity", "Other")
"""What became of the values of a subject and relation (WikiFactDiff, section 3), in the order of its table 2."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One triple with the labels of its snapshot. Ids are QIDs and PIDs."""

    subject: str
    subject_label: str
    property: str
    property_label: str
    object: str
    object_label: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain of facts behind a multi-hop question.

    Attributes:
        chain_id: Unique within a timestep; all wordings of one question share it.
        hops: Number of facts in the chain.
        hop_questions: The question about each fact alone, in order; asked on the axis hop.
        old_answers: Answers that were right before the edits.
    """

    chain_id: str
    hops: int
    hop_questions: tuple[str, ...] = ()
    old_answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """One question asked of the model for one case.

    Attributes:
        axis: What it tests.
        question: As asked, ending in "?".
        answers: Accepted answers; the first is the object's label, the rest are its aliases.
        facts: The fact that answers it; two, in order, for a two-hop question and a consequence; all of a chain.
        second_case_id: The case that the second of the two belongs to; None where it is no case, or there is none.
        expires: A later timestep of the run that edits one of the facts; its answers are out of date from then on.
            Set by the run (kgedit.runs.expiry).
        changed: Whether the fact of a locality probe became true in the window itself: a model of the older date does
            not know it.
        cloze: The same as a statement that breaks off where the answer stands; "" where there is none.
        similarity: Of a locality probe's subject to the edit's, the higher the nearer; None where nobody knows.
        popularity: Of a locality probe's subject, ln(median monthly views + 1); None where nobody knows.
        basis: How a locality probe was found: "graph", "label", "relation", "changed", "nearest" or "random"
            (docs/questions.md); None where nobody knows.
        evidence: That a locality probe's fact holds on the day of the newer snapshot: "dated" or "edited"
            (docs/questions.md); None if there is none.
        chain: Of a multi-hop question that is asked in several wordings or has more than two hops; None otherwise.
    """

    axis: Axis
    question: str
    answers: tuple[str, ...]
    facts: tuple[Fact, ...]
    second_case_id: str | None = None
    expires: str | None = None
    changed: bool = False
    cloze: str = ""
    similarity: float | None = None
    popularity: float | None = None
    basis: str | None = None
    evidence: str | None = None
    chain: Chain | None = None


@dataclass(frozen=True, slots=True)
class Specificity:
    """How well known the two ends of a fact are (WikiBigEdit, section 3.3); None where it was not measured.

    Attributes:
        subject_views: Views of the subject's Wikipedia article in the year before the newer snapshot.
        object_views: Views of the object's article.
        subject_count: How often a corpus names the subject.
        object_count: How often it names the object.
    """

    subject_views: int | None = None
    object_views: int | None = None
    subject_count: int | None = None
    object_count: int | None = None


SPECIFICITY = tuple(field.name for field in fields(Specificity))
"""Columns of Specificity in tables of cases."""


@dataclass(frozen=True, slots=True)
class Case:
    """One edit: the fact to be learned, how to ask for it, and every probe.

    Attributes:
        case_id: "SUBJECT:PROPERTY:OBJECT", unique within a timestep.
        timestep: "FROM_TO" as yyyymmdd_yyyymmdd, world dates of the two snapshots.
        tag: "update" where an old value was replaced, "new" where the subject had none.
        fact: The fact of the newer snapshot.
        question: The edit's prompt, ending in "?".
        answer: The edit's target, the new object's label.
        cloze: A statement that breaks off where the answer stands.
        old_objects: QIDs of the older snapshot's values; empty for "new".
        old_answers: Their labels, in the same order.
        probes: Every probe, the update question itself included.
        start_time: When the statement says that the fact began, at its precision ("2021", "2021-12"); None where it
            does not say, or for cases of a file.
        point_in_time: When it says that the fact held, likewise.
        as_of: Day on which the fact holds, that of the newer snapshot (YYYY-MM-DD); None for cases of a file that does
            not say.
        kind: What the change was ("update", "backfill", ...: kgedit.timesteps.kinds); None where nobody judged it.
        clozes: The cloze and four others that ask whether the edit generalizes; none for cases of a file.
        popularity: Of the subject, ln(median monthly views + 1); None where nobody knows.
        scenario: One of SCENARIOS; None where no one says.
        static_answers: What stays right beside the answer.
        alternatives: Of the relation and about as frequent as the answer, or as the archived one, and never right.
        subject_aliases: Other names of the subject; none for cases of a file.
        subject_description: What tells the subject from others of its name; "" where nobody says.
        category: The question's topic (QAEdit has ten); None where nobody says.
        in_replacement_set: Whether the case belongs to WFD_repl (WikiFactDiff, section 5); None where nobody says.
        specificity: How well known its subject and object are.
        group: Id of the instance whose edits are all made before its chain is asked (MQuAKE); None for a single edit.
    """

    case_id: str
    timestep: str
    tag: Literal["update", "new"]
    fact: Fact
    question: str
    answer: str
    cloze: str
    old_objects: tuple[str, ...]
    old_answers: tuple[str, ...]
    probes: tuple[Probe, ...]
    start_time: str | None = None
    point_in_time: str | None = None
    kind: str | None = None
    as_of: str | None = None
    clozes: tuple[str, ...] = ()
    popularity: float | None = None
    scenario: str | None = None
    static_answers: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    subject_aliases: tuple[str, ...] = ()
    subject_description: str = ""
    category: str | None = None
    in_replacement_set: bool | None = None
    specificity: Specificity = Specificity()
    group: str | None = None


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact of the older snapshot in words: what an up-to-date model of that day knew."""

    fact: Fact
    question: str
    rephrase: str
    cloze: str
    answer: str
