"""The tables of a timestep: their schemas, and the facts and answers in their rows.

Many facts of Wikidata are out of date because no one entered their end. Among equally suitable facts for a locality
probe, those with evidence are preferred. References are not stored, so the evidence is dates and revisions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from kgedit.records.cases import Fact

_FACT = [
    ("subject", pa.string()),
    ("subject_label", pa.string()),
    ("property", pa.string()),
    ("property_label", pa.string()),
    ("object", pa.string()),
    ("object_label", pa.string()),
]
FACT = tuple(name for name, _ in _FACT)
"""Columns of a fact with its labels."""

_STRINGS = pa.list_(pa.string())

CASES = pa.schema(
    [
        ("case_id", pa.string()),
        ("tag", pa.string()),
        ("scenario", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("statement_ids", _STRINGS),
        ("start_time", pa.string()),
        ("point_in_time", pa.string()),
        ("as_of", pa.string()),
        ("kind", pa.string()),
        ("kind_confidence", pa.float64()),
        ("kind_signals", _STRINGS),
        ("old_objects", _STRINGS),
        ("old_answers", _STRINGS),
        ("question", pa.string()),
        ("rephrase", pa.string()),
        ("persona", pa.string()),
        ("personas", pa.string()),
        ("cloze", pa.string()),
        ("rephrases", _STRINGS),
        ("clozes", _STRINGS),
        ("statement", pa.string()),
        ("name", pa.string()),
        ("subject_class", pa.string()),
        ("phrase", pa.string()),
        ("answer", pa.string()),
        ("answer_type", pa.string()),
        ("label_changed", pa.bool_()),
        ("template", pa.string()),
        ("subject_aliases", _STRINGS),
        ("subject_description", pa.string()),
        ("subject_views", pa.int64()),
        ("object_views", pa.int64()),
        ("subject_count", pa.int64()),
        ("object_count", pa.int64()),
    ]
)
"""cases.parquet: one row per edit, ordered by case_id.

No question fails a final filter (kgedit.timesteps.final_filters): personas is null if it would, rephrases excludes such
texts, and rephrase is the first remaining one, or null; clozes exclude texts that give the answer away (the first is
the cloze used for editing, the others test whether the edit generalizes). statement is the update as a sentence
(null in the other profile), name the subject as used in a sentence ("the Netherlands"), phrase the template's noun
phrase, answer the target of the edit (the label of the object), answer_type its type ("person"; one of
kgedit.wording.grammar.ANSWERS). Timesteps of earlier versions have the type in answer, and no answer_type. start_time
and point_in_time are qualifiers of the statement, at their precision ("2021", "2021-12"); as_of is the day of the newer
snapshot, on which the fact holds. kind, its confidence in [0, 1] and its signals are those of
kgedit.timesteps.kinds. subject_aliases and subject_description are those of the newer snapshot. scenario is one of
kgedit.records.cases.SCENARIOS. These three are null in timesteps of older versions of kgedit. The last four columns are
those of kgedit.records.cases.Specificity; null without page views or counts, or if these do not contain the entity.
"""

LOCALITY = pa.schema(
    [
        ("case_id", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("similarity", pa.float64()),
        ("basis", pa.string()),
        ("question", pa.string()),
        ("evidence", pa.string()),
    ]
)
"""locality.parquet: at most one fact per case that its edit should not change, usually an unchanged one
(kgedit.timesteps.locality).

basis is the source of similarity: "graph" (similarity is then the rarity of shared facts) or "label" (labels of both
subjects, 0 to 1), with the same relation; "relation": the relation is similar, too, not the same; "changed": the fact
became true in the window itself, and is not a case; "nearest": by kgedit.timesteps.wikifactdiff. evidence that the fact
holds on the day of the newer snapshot: "dated" or "edited" (kgedit.timesteps.tables); null without evidence, and in
timesteps of older versions of kgedit.
"""

TWO_HOPS = pa.schema(
    [
        ("case_id", pa.string()),
        ("second_case_id", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("chosen", pa.bool_()),
        ("question", pa.string()),
        ("rephrases", _STRINGS),
    ]
)
"""two_hops.parquet: the second hop of every chain that starts at a case; one per case is `chosen` for its probe.

rephrases: paraphrases of the question; none of them names the entity in the middle or the answer.
"""

CHAINS = pa.schema(
    [
        ("case_id", pa.string()),
        ("hops", pa.int64()),
        ("position", pa.int64()),
        (
            "facts",
            pa.list_(
                pa.struct(
                    [*_FACT, ("object_aliases", _STRINGS), ("question", pa.string()), ("cloze", pa.string())],
                )
            ),
        ),
        ("object_label", pa.string()),
        ("object_aliases", _STRINGS),
        ("old_answers", _STRINGS),
        ("question", pa.string()),
        ("rephrases", _STRINGS),
    ]
)
"""chains.parquet, only with --hops above 2: a chain of facts through a case, at most one of each length.

facts: all facts in order, each with its own question; the edit is number `position`, from 1, and the others are in
both snapshots. object_label and object_aliases are those of the last fact. old_answers: where the replaced object leads
in the older snapshot.
"""

CROSSLINGUAL = pa.schema(
    [
        ("case_id", pa.string()),
        ("language", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("old_answers", _STRINGS),
        ("question", pa.string()),
    ]
)
"""crosslingual.parquet, only with --crosslingual: the question about an edit in another language.

Labels, aliases and old_answers are in that language, or in the fallback of its snapshots. At most one row per case.
"""

KNOWN_FACTS = pa.schema(
    [
        *_FACT,
        ("question", pa.string()),
        ("rephrase", pa.string()),
        ("cloze", pa.string()),
    ]
)
"""known_facts.parquet: facts of the older snapshot with questions (old answers, locality, others of the relations)."""

CHANGED = "changed"
"""Basis of a locality probe that became true in the window."""

TABLES = {"cases": CASES, "locality": LOCALITY, "two_hops": TWO_HOPS, "known_facts": KNOWN_FACTS}

OPTIONAL_TABLES = {"chains": CHAINS, "crosslingual": CROSSLINGUAL}
"""Tables that only some exports write."""


class TimestepTables(Protocol):
    """Folder, manifest and tables of a timestep, as kgedit.timesteps.timestep.Timestep has them."""

    @property
    def folder(self) -> Path:
        """Folder with the files."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Content of timestep.json."""

    def table(self, name: str) -> pa.Table:
        """Read one of TABLES."""


def fact_in(row: dict[str, Any]) -> Fact:
    """Fact of a row that has the columns of FACT."""
    return Fact(*(row[name] for name in FACT))


def answers_in(row: dict[str, Any]) -> tuple[str, ...]:
    """Label and aliases of the object of a row."""
    return tuple(dict.fromkeys([row["object_label"], *(row["object_aliases"] or [])]))


DATED = "dated"
"""The statement has a start or a point in time, which someone must have looked up."""

EDITED = "edited"
"""The item was edited between the snapshots, and the fact was kept."""

EVIDENCE_RANK = f"CASE evidence WHEN '{DATED}' THEN 2 WHEN '{EDITED}' THEN 1 ELSE 0 END"
"""SQL of a rank; higher is better."""

ALIKE = 1
"""Number of decimals to which similarities are rounded; facts of equal rounded similarity are equally suitable."""


def find_evidence(facts: str) -> str:
    """SQL of the evidence of facts, with columns subject, property, object and evidence (null without evidence).

    Args:
        facts: A table or view with columns subject, property and object, on a connection with the views new_facts,
            old_entities and new_entities.
    """
    return f"""
        SELECT f.subject, f.property, f.object,
               CASE WHEN f.dated THEN '{DATED}' WHEN o.lastrevid <> n.lastrevid THEN '{EDITED}' END AS evidence
        FROM (SELECT subject, property, object, bool_or(start_first IS NOT NULL OR point_first IS NOT NULL) AS dated
              FROM new_facts SEMI JOIN {facts} USING (subject, property, object) GROUP BY ALL) f
        LEFT JOIN old_entities o ON o.id = f.subject LEFT JOIN new_entities n ON n.id = f.subject
    """
