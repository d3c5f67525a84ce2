"""Published scores of runs, one row per score, as input for comparisons by others."""

from __future__ import annotations

import pyarrow as pa

RESULTS = pa.schema(
    [
        ("run", pa.string()),
        ("model", pa.string()),
        ("method", pa.string()),
        ("protocol", pa.string()),
        ("edits", pa.int64()),
        ("seed", pa.int64()),
        ("stage", pa.string()),
        ("timestep", pa.string()),
        ("axis", pa.string()),
        ("preset", pa.string()),
        ("metric", pa.string()),
        ("main", pa.bool_()),
        ("is_share", pa.bool_()),
        ("n", pa.int64()),
        ("relations", pa.int64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("answers_sha256", pa.string()),
        ("cases_sha256", pa.string()),
    ]
)
"""run: name of the run's folder. model: its name, or the last part of its path. edits: number of different cases
applied. The columns from stage to high are those of kgedit.records.scores.Score; timestep is null if all are pooled.
is_share: whether the metric is a share or a difference of shares, so that 1 means 100 %. answers_sha256 and
cases_sha256: of the scored answers and of the evaluated cases."""
