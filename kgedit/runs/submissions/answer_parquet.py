"""Answers of a run as one lossless Parquet table, which an entry contains instead of answers.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.records.runs import Answer

_NEIGHBOUR = pa.struct(
    [
        ("subject", pa.string()),
        ("label", pa.string()),
        ("similarity", pa.float64()),
        ("popularity", pa.float64()),
        ("basis", pa.string()),
    ]
)
_STRINGS = pa.list_(pa.string())
_CHAIN = pa.struct(
    [("chain_id", pa.string()), ("hops", pa.int64()), ("hop_questions", _STRINGS), ("old_answers", _STRINGS)]
)

FULL_ANSWERS = pa.schema(
    [
        ("model_state", pa.struct([("timestep", pa.string()), ("edits", pa.int64())])),
        *((name, pa.string()) for name in ("timestep", "case_id", "relation", "axis", "preset", "context")),
        *((name, pa.string()) for name in ("generation", "truncation", "question", "prompt")),
        ("answers", _STRINGS),
        ("text", pa.string()),
        ("token_match", pa.float64()),
        ("prompt_tokens", pa.int64()),
        ("new_tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("probability", pa.float64()),
        ("old_probability", pa.float64()),
        ("retrieved", _STRINGS),
        ("second_case_id", pa.string()),
        ("expires", pa.string()),
        ("neighbour", _NEIGHBOUR),
        ("scenario", pa.string()),
        ("static_probability", pa.float64()),
        ("alternative_probability", pa.float64()),
        ("highest_alternative", pa.float64()),
        ("chain", _CHAIN),
    ]
)
"""Fields of an Answer (kgedit.records.runs), in their order."""

_ROWS = 65_536


def write_full_answers(path: Path, answers: Iterable[Answer]) -> None:
    """Write answers in order; the same answers give the same bytes."""
    with pq.ParquetWriter(path, FULL_ANSWERS, compression="zstd") as writer:
        rows: list[object] = []
        for answer in answers:
            rows.append(msgspec.to_builtins(answer))
            if len(rows) == _ROWS:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=FULL_ANSWERS))
                rows = []
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=FULL_ANSWERS))


def read_full_answers(path: Path) -> Iterator[Answer]:
    """Read the answers in order.

    Raises:
        msgspec.ValidationError: if a row is not an answer.
        pyarrow.ArrowException: if the file is not such a table.
    """
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            yield from msgspec.convert(batch.to_pylist(), list[Answer])
