"""Metrics, each registered in METRICS; scores.py applies them to the answers of a run."""

from __future__ import annotations

from kgedit.metrics.contract import Metric
from kgedit.registry import Registry

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "archive_drop": "kgedit.metrics.scenarios:ARCHIVE_DROP",
        "archived": "kgedit.metrics.scenarios:ARCHIVED",
        "bertscore": "kgedit.metrics.bertscore:BERTSCORE",
        "bertscore_precision": "kgedit.metrics.bertscore:BERTSCORE_PRECISION",
        "bertscore_recall": "kgedit.metrics.bertscore:BERTSCORE_RECALL",
        "bleedover": "kgedit.metrics.probability:BLEEDOVER",
        "contains": "kgedit.metrics.contains:CONTAINS",
        "contains_any": "kgedit.metrics.contains_any:CONTAINS_ANY",
        "empty": "kgedit.metrics.empty:EMPTY",
        "exact_match": "kgedit.metrics.exact_match:EXACT_MATCH",
        "exact_match_any": "kgedit.metrics.exact_match_any:EXACT_MATCH_ANY",
        "first_line": "kgedit.metrics.first_line:FIRST_LINE",
        "fluency": "kgedit.metrics.fluency:FLUENCY",
        "gain": "kgedit.metrics.scenarios:GAIN",
        "judge": "kgedit.metrics.judge:JUDGE",
        "ngram_entropy": "kgedit.metrics.fluency:NGRAM_ENTROPY",
        "preferred": "kgedit.metrics.scenarios:PREFERRED",
        "probability": "kgedit.metrics.probability:PROBABILITY",
        "probability_difference": "kgedit.metrics.probability:PROBABILITY_DIFFERENCE",
        "probability_success": "kgedit.metrics.probability:PROBABILITY_SUCCESS",
        "replaced": "kgedit.metrics.scenarios:REPLACED",
        "single_answer": "kgedit.metrics.single_answer:SINGLE_ANSWER",
        "static_loss": "kgedit.metrics.scenarios:STATIC_LOSS",
        "token_f1": "kgedit.metrics.token_f1:TOKEN_F1",
        "token_match": "kgedit.metrics.token_match:TOKEN_MATCH",
        "unchanged": "kgedit.metrics.unchanged:UNCHANGED",
    },
    group="kgedit.metrics",
)
