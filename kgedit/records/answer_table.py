"""Tables of a run folder for comparisons: one row per answer in answers.parquet, one per case in cases.parquet.

Both are derived from answers.jsonl and the timesteps. Rows are joined by 64-bit hashes that are the same in every run.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

SCENARIO_SCORES = ("gain", "preferred", "static_loss", "archive_drop", "archived", "replaced")
"""Metrics that only some scenarios have (kgedit.metrics.probability)."""

ANSWERS = pa.schema(
    [
        ("stage", pa.string()),
        ("model_timestep", pa.string()),
        ("edits", pa.int64()),
        ("timestep", pa.string()),
        ("case", pa.uint64()),
        ("second_case", pa.uint64()),
        ("question", pa.uint64()),
        ("relation", pa.string()),
        ("axis", pa.string()),
        ("preset", pa.string()),
        ("value", pa.float64()),
        ("right", pa.bool_()),
        ("first_found", pa.bool_()),
        ("second_found", pa.bool_()),
        ("error", pa.string()),
        ("judged_right", pa.bool_()),
        ("judged_error", pa.string()),
        ("neighbour", pa.string()),
        ("neighbour_label", pa.string()),
        ("similarity", pa.float64()),
        ("popularity", pa.float64()),
        ("basis", pa.string()),
        ("bleedover", pa.float64()),
        ("unchanged", pa.float64()),
        ("scenario", pa.string()),
        *((name, pa.float64()) for name in SCENARIO_SCORES),
        ("begins_right", pa.bool_()),
        ("hops", pa.int64()),
        ("chain", pa.uint64()),
        ("hop_questions", pa.list_(pa.uint64())),
    ]
)
"""stage, model_timestep, edits: of a Score and its ModelState. case, second_case, question: hashes of `case_hash` and
`question_hash`; second_case is null if a two-hop question's second fact is not a case. value: by the preset's own
metric, null if the metric cannot score the answer. right: whether that is the best value; null for metrics that do not
separate right from wrong. first_found, second_found: whether retrieval put the case, and the second case, into the
prompt. begins_right: whether the first tokens of a free answer are the target's; null on locality axes and in runs
scored by an earlier version. error: ErrorClass of a wrong free answer by the rules, else null. judged_right,
judged_error: verdict of a judge, and the ErrorClass that it gave a wrong answer; null without a verdict. neighbour,
neighbour_label, similarity, popularity, basis: subject of a locality question (kgedit.records.answers.Neighbour).
bleedover: decrease in the probability of its answer since before any edit; null for free answers. unchanged: 1 if a
locality answer equals that of the unedited model, else 0; null without one to compare with. scenario: of the case, on
axes that query the edited fact; SCENARIO_SCORES are columns too. hops, chain, hop_questions: number of facts behind a
multi-hop question, and for those with a Chain the hash of the chain and of the questions about its single facts, which
are values of `question`; null on other axes."""

ADDED_LATER = ("begins_right", "hops", "chain", "hop_questions")
"""Columns of ANSWERS that tables of earlier versions lack: read as nulls, and filled by scoring the run again."""

CASES = pa.schema(
    [
        ("case", pa.uint64()),
        ("timestep", pa.string()),
        ("case_id", pa.string()),
        ("tag", pa.string()),
        ("kind", pa.string()),
        ("year", pa.string()),
        ("relation", pa.string()),
        ("relation_label", pa.string()),
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("object", pa.string()),
        ("object_label", pa.string()),
        ("old_answers", pa.list_(pa.string())),
        ("popularity", pa.float64()),
        ("category", pa.string()),
        ("scenario", pa.string()),
        ("since", pa.string()),
        ("subject_views", pa.int64()),
        ("object_views", pa.int64()),
        ("subject_count", pa.int64()),
        ("object_count", pa.int64()),
    ]
)
"""The edited cases of a run, in the order of editing. year: of the start of the fact, else of its point in time; null
if the statement has neither. popularity: of the subject, as in the timestep. category: the question's topic, in QAEdit
files. scenario: one of kgedit.records.cases.SCENARIOS. since: date that the year is taken from, at its precision
("2021-12"). The last four columns: see kgedit.records.cases.Specificity."""


def case_hash(timestep: str, case_id: str) -> int:
    """Hash that identifies a case."""
    return _hash(timestep, case_id)


def question_hash(timestep: str, case_id: str, axis: str, question: str) -> int:
    """Hash that identifies one question of one case."""
    return _hash(timestep, case_id, axis, question)


def _hash(*parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")
