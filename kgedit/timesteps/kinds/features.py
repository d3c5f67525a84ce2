"""Numeric features of the classifier: the value signals, counts in the texts, and the property.

All columns are computed at once with Arrow; there is no loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgedit.timesteps.kinds.signals import ENTITY_SIGNALS
from kgedit.timesteps.kinds.value_signals import VALUE_SIGNALS

Numbers = NDArray[np.float64]
Embedder = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts -> (texts, dimensions), each row of length 1; see kgedit.llm.embeddings."""

_VALUE_TYPES = ("item", "quantity", "time", "string", "monolingualtext")
_COUNTED = {
    "letters": r"\pL",
    "capitals": r"\p{Lu}",
    "digits": r"\d",
    "words": r"\S+",
    "marks": r"[^\pL\d\s]",
    "brackets": r"[(\[]",
    "not_ascii": r"[^\x00-\x7f]",
    "years": r"\b1\d\d\d\b|\b20\d\d\b",
}
"""RE2 patterns whose matches in texts are counted."""

_COMPARED_MEANINGS = (
    ("old_text", "new_text"),
    ("old_description", "new_description"),
    ("old_both", "new_both"),
    ("old_text", "new_description"),
    ("new_text", "old_description"),
    ("property_label", "old_text"),
    ("property_label", "new_text"),
)
"""Pairs of texts whose similarity in meaning is a feature, if there is an embedder."""


def common_properties(signals: pa.Table, *, least: int = 8) -> list[str]:
    """Properties with at least `least` rows, by id: each gets a separate feature."""
    counted = pc.value_counts(signals["property"].combine_chunks()).to_pylist()
    return sorted(row["values"] for row in counted if row["counts"] >= least)


def feature_table(signals: pa.Table, properties: Sequence[str], embed: Embedder | None) -> dict[str, Numbers]:
    """Compute one column of numbers per feature; unknown values are NaN.

    Args:
        signals: Columns SIGNALS_OF_CHANGES.
        properties: Properties to distinguish, from common_properties of the training rows.
        embed: Embedder for features of meaning; None leaves them out.
    """
    columns = {signal.name: _numbers(signals[signal.name]) for signal in (*ENTITY_SIGNALS, *VALUE_SIGNALS)}
    columns["value_type"] = _position(signals["value_type"], _VALUE_TYPES)
    columns["property"] = _position(signals["property"], properties)
    for name in ("text", "description"):
        for what, pattern in _COUNTED.items():
            old, new = (
                _numbers(pc.count_substring_regex(signals[f"{side}_{name}"], pattern)) for side in ("old", "new")
            )
            columns |= {f"old_{name}_{what}": old, f"new_{name}_{what}": new, f"more_{name}_{what}": new - old}
    columns |= _number_features(signals)
    if embed is not None:
        columns |= _meanings(signals, embed)
    return columns


def known_features(columns: dict[str, Numbers]) -> tuple[str, ...]:
    """Names of the columns with any known value."""
    return tuple(name for name, column in columns.items() if not np.isnan(column).all())


def matrix(columns: dict[str, Numbers], names: Sequence[str]) -> Numbers:
    """The named columns as a matrix, (rows, features)."""
    return np.column_stack([columns[name] for name in names])


def _numbers(column: Any) -> Numbers:
    numbers: Numbers = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    return numbers


def _position(column: pa.ChunkedArray, names: Sequence[str]) -> Numbers:
    return _numbers(pc.index_in(column, value_set=pa.array(list(names), pa.string())))


def _number_features(signals: pa.Table) -> dict[str, Numbers]:
    is_number = pc.equal(signals["value_type"], "quantity")
    old, new = (
        _numbers(pc.if_else(is_number, _to_number(signals[f"{side}_text"]), pa.scalar(None, pa.float64())))
        for side in ("old", "new")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log10(np.abs(new / old))
    ratio[~np.isfinite(ratio)] = np.nan
    return {
        "old_magnitude": np.log10(1 + np.abs(old)),
        "new_magnitude": np.log10(1 + np.abs(new)),
        "magnitudes_apart": ratio,
        "sign_kept": np.sign(old) * np.sign(new),
    }


def _to_number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_number = pc.match_substring_regex(column, r"^-?\d{1,300}(\.\d+)?$")
    return pc.if_else(is_number, column, pa.scalar(None, pa.string())).cast(pa.float64())


def _meanings(signals: pa.Table, embed: Embedder) -> dict[str, Numbers]:
    """Cosines of texts; NaN if one of the two is missing."""
    texts = {
        name: signals[name].combine_chunks() for name in ("property_label", *_sides("text"), *_sides("description"))
    }
    of_words = pc.is_in(signals["value_type"], value_set=pa.array(["item", "string", "monolingualtext"]))
    for side in ("old", "new"):
        texts[f"{side}_both"] = pc.binary_join_element_wise(texts[f"{side}_text"], texts[f"{side}_description"], ": ")
    texts = {
        name: pc.if_else(of_words.combine_chunks(), column, pa.scalar(None, pa.string()))
        for name, column in texts.items()
    }
    distinct = pc.unique(pa.concat_arrays(list(texts.values()))).drop_null()
    if len(distinct) == 0:
        return {f"{one}~{other}": np.full(signals.num_rows, np.nan) for one, other in _COMPARED_MEANINGS}
    vectors = embed(distinct.to_pylist())
    rows = {name: pc.index_in(column, value_set=distinct) for name, column in texts.items()}
    return {f"{one}~{other}": _cosines(vectors, rows[one], rows[other]) for one, other in _COMPARED_MEANINGS}


def _sides(name: str) -> tuple[str, str]:
    return f"old_{name}", f"new_{name}"


def _cosines(vectors: NDArray[np.float32], one: pa.Array, other: pa.Array) -> Numbers:
    known = pc.and_(one.is_valid(), other.is_valid()).to_numpy(zero_copy_only=False)
    cosines = np.full(len(one), np.nan)
    first, second = (column.filter(pa.array(known)).to_numpy() for column in (one, other))
    cosines[known] = np.einsum("rd,rd->r", vectors[first], vectors[second])
    return cosines
