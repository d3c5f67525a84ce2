"""Scores of finished runs as one table of numbers: a row for each score."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kgedit.analysis.runs import Run

SCORES = pa.schema(
    [
        ("run", pa.string()),
        ("model", pa.string()),
        ("method", pa.string()),
        ("protocol", pa.string()),
        ("seed", pa.int64()),
        ("state", pa.string()),
        ("after", pa.string()),
        ("edits", pa.int64()),
        ("timestep", pa.string()),
        ("axis", pa.string()),
        ("preset", pa.string()),
        ("metric", pa.string()),
        ("main", pa.bool_()),
        ("n", pa.int64()),
        ("relations", pa.int64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
"""run: its folder; the columns from `state` on are the fields of a `Score` in kgedit.records.scores."""


def score_table(runs: Sequence[Run]) -> pa.Table:
    """Every score of every run, in the order of the runs."""
    rows = [
        {
            "run": str(run.folder),
            "model": run.model,
            "method": run.spec.method,
            "protocol": run.spec.protocol,
            "seed": run.spec.seed,
            **{name: getattr(score, name) for name in SCORES.names[SCORES.names.index("state") :]},
        }
        for run in runs
        for score in run.scores.scores
    ]
    return pa.Table.from_pylist(rows, schema=SCORES)
