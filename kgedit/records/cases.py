"""A benchmark case: one edit with all its probes. Bulk data stays columnar, because cases are few."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

Axis = Literal[
    "update",
    "rephrase",
    "personas",
    "alias",
    "crosslingual",
    "mhop",
    "mhop_rephrase",
    "hop",
    "consequence",
    "locality",
    "random_locality",
]
"""Property that a probe tests. Five are WikiBigEdit's (section 3); mhop_rephrase rewords its two-hop questions.

crosslingual queries the edited fact in another language. hop queries each fact of a chain alone (MQuAKE's single hops).
Two are KnowEdit's: alias (the subject by another name) and consequence (implied by the fact alone). locality queries
facts near the edit, random_locality randomly drawn facts (WikiFactDiff, section 5).
"""

AXES: tuple[Axis, ...] = get_args(Axis)

EDIT_AXES: tuple[Axis, ...] = ("update", "rephrase", "personas", "alias")
"""Axes that query the edited fact itself in the language of the edit, so that the case's old answers are theirs."""

TWO_HOP_AXES: tuple[Axis, ...] = ("mhop", "mhop_rephrase")
"""Axes that need the edited fact and at least one more: two hops, and chains of up to four."""

LOCALITY_AXES: tuple[Axis, ...] = ("locality", "random_locality")
"""Axes of facts that the edit must not change."""


SCENARIOS = ("ReplaceObject", "Archive", "AddObject", "AddRelation", "AddEntity", "Other")
"""Changes to the values of a subject and relation (WikiFactDiff, section 3), in the order of its table 2."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One triple with labels of its snapshot. Ids are QIDs and PIDs."""

    subject: str
    subject_label: str
    property: str
    property_label: str
    object: str
    object_label: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain of facts behind a multi-hop question, or the one fact behind a question in another language.

    Attributes:
        chain_id: Unique within a timestep; all wordings of one question share it.
        hops: Number of facts in the chain.
        hop_questions: The question about each fact alone, in order; evaluated on the axis hop.
        old_answers: Answers that were correct before the edits, in the question's language.
    """

    chain_id: str
    hops: int
    hop_questions: tuple[str, ...] = ()
    old_answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """One question of one case, asked of the model.

    Attributes:
        axis: One of Axis.
        question: Question text, ending in "?".
        answers: Accepted answers; the first is the object's label, the rest are its aliases.
        facts: The fact that answers it; two, in order, for a two-hop question and a consequence; all facts of a chain.
        second_case_id: Case of the second of two facts; None if that fact is not a case or there is no second fact.
        expires: Later timestep of the run that edits one of the facts, after which the answers are out of date. Set by
            the run (kgedit.runs.overlaps).
        changed: Whether the fact of a locality probe became true within the window, so that a model of the older date
            does not know it.
        cloze: The question as a statement that ends just before the answer; "" without one.
        similarity: Similarity of a locality probe's subject to the edit's, higher means closer; None if unknown.
        popularity: ln(median monthly views + 1) of a locality probe's subject; None if unknown.
        basis: How a locality probe was found: "graph", "label", "relation", "changed", "nearest" or "random"
            (docs/questions.md); None if unknown.
        evidence: Evidence that a locality probe's fact holds on the day of the newer snapshot: "dated" or "edited"
            (docs/questions.md); None without any.
        chain: Chain of a multi-hop question that has several wordings or more than two hops, and of a question in
            another language; None otherwise.
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
    """Popularity of the subject and object of a fact (WikiBigEdit, section 3.3); None means not measured.

    Attributes:
        subject_views: Views of the subject's Wikipedia article in the year before the newer snapshot.
        object_views: Views of the object's article.
        subject_count: Number of mentions of the subject in a corpus.
        object_count: Number of mentions of the object.
    """

    subject_views: int | None = None
    object_views: int | None = None
    subject_count: int | None = None
    object_count: int | None = None


SPECIFICITY = tuple(field.name for field in fields(Specificity))
"""Columns of Specificity in tables of cases."""


@dataclass(frozen=True, slots=True)
class Case:
    """One edit: the fact to learn, its prompt and target, and every probe.

    Attributes:
        case_id: "SUBJECT:PROPERTY:OBJECT", unique within a timestep.
        timestep: "FROM_TO" as yyyymmdd_yyyymmdd, the dates of the two snapshots.
        tag: "update" if an old value was replaced, "new" if the subject had none.
        fact: The fact of the newer snapshot.
        question: Prompt of the edit, ending in "?".
        answer: Target of the edit, the label of the new object.
        cloze: Statement that ends just before the answer.
        old_objects: QIDs of the older snapshot's values; empty for "new".
        old_answers: Their labels, in the same order.
        probes: All probes, including the update question itself.
        start_time: Start of the fact according to the statement, at its precision ("2021", "2021-12"); None if the
            statement has none, or for cases of a file.
        point_in_time: Point in time of the fact, likewise.
        as_of: Day on which the fact holds, that of the newer snapshot (YYYY-MM-DD); None for cases of a file without
            one.
        kind: Kind of change ("update", "backfill", ...: kgedit.timesteps.kinds); None if not determined.
        clozes: The cloze and four others that test generalization of the edit; empty for cases of a file.
        popularity: ln(median monthly views + 1) of the subject; None if unknown.
        scenario: One of SCENARIOS; None if unknown.
        static_answers: Other values that remain correct.
        alternatives: Wrong values of the relation, about as frequent as the answer or as the archived value.
        subject_aliases: Other names of the subject; empty for cases of a file.
        subject_description: Description that separates the subject from others of the same name; "" if unknown.
        category: Topic of the question (QAEdit has ten); None if unknown.
        in_replacement_set: Whether the case belongs to WFD_repl (WikiFactDiff, section 5); None if unknown.
        specificity: Popularity of the subject and object.
        group: Id of the instance whose edits are all applied before its chain is evaluated (MQuAKE); None for a single
            edit.
        shares_id: Whether another timestep of the run has a different case with this id, as files have whose ids are
            row numbers. Set by the run (kgedit.runs.overlaps).
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
    shares_id: bool = False

    @property
    def id_in_run(self) -> str:
        """Id that is unique within a run: `case_id`, qualified only if another case of the run has the same."""
        return qualified_id(self.timestep, self.case_id) if self.shares_id else self.case_id


def qualified_id(timestep: str, case_id: str) -> str:
    """Id of a case with its timestep."""
    return f"{timestep}\t{case_id}"


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact of the older snapshot in words, which a model up to date on that day knew."""

    fact: Fact
    question: str
    rephrase: str
    cloze: str
    answer: str
