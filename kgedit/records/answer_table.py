"""What a run folder holds for comparisons: a row for each answer in answers.parquet, for each case in cases.parquet.

Both follow from answers.jsonl and the timesteps; a row is found again by a 64-bit hash, the same in every run.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

SCENARIO_SCORES = ("gain", "preferred", "static_loss", "archive_drop", "archived", "replaced")
"""Metrics that only some scenarios have (kgedit.metrics.scenarios)."""

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
`question_hash`; second_case is null where a two-hop question's second fact is no case. value: by the preset's own
metric, null where it cannot judge. right: whether that is the best value; null for metrics that do not tell right from
wrong. first_found, second_found: whether retrieval put the case, and the second case, into the prompt. begins_right:
whether the first tokens of a free answer are the target's; null on locality axes and in runs scored by an earlier
version. error: an
ErrorClass for a wrong free answer by the rules, else null. judged_right, judged_error: verdict of a judge, and the
ErrorClass that it gave a wrong answer; null where nobody judged. neighbour, neighbour_label, similarity,
popularity, basis: what a locality question is about (kgedit.records.answers.Neighbour). bleedover: what the probability
of its answer has lost since before any edit; null for free answers. unchanged: 1 where a locality answer is the one
that the unedited model gave, else 0; null where there is none to compare with.
scenario: of the case, where the edited fact is asked for; SCENARIO_SCORES are columns too.
hops, chain, hop_questions: number of facts behind a multi-hop question, and for those with a Chain the hash of the
chain and of the questions about its single facts, which are values of `question`; null on other axes."""

ADDED_LATER = ("begins_right", "hops", "chain", "hop_questions")
"""Columns of ANSWERS that tables of earlier versions lack: they are read as nulls, and filled by scoring again."""

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
where the statement says neither. popularity: of the subject, as the timestep tells it.
category: the question's topic, in QAEdit files. scenario: one of kgedit.records.cases.SCENARIOS. since: date that the
year is taken from, at its precision ("2021-12"). The last four columns: see kgedit.records.cases.Specificity."""


def case_hash(timestep: str, case_id: str) -> int:
    """What a case is found by."""
    return _hash(timestep, case_id)


def question_hash(timestep: str, case_id: str, axis: str, question: str) -> int:
    """What one question of one case is found by."""
    return _hash(timestep, case_id, axis, question)


def _hash(*parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")
