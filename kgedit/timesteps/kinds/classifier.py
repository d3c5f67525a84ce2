"""Classifier of kinds, trained from a file of labelled changes (extra ``classifier``: scikit-learn).

Trained models are never stored: training takes seconds, the file and the seed determine the result, and no pickle has
to be trusted. The classifier sees only the two values, so rules about dates, ranks and history are applied before it
and, if it predicts a different value, after it. Its features are the value signals, counts in the texts, and the
property, computed with Arrow for all rows at once.

Two formats of files are read: kgedit's own columns, and the CSV in which the human-labelled edits of
wikidata-change-classification are published, recognized by its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from numpy.typing import NDArray

from kgedit.errors import TimestepError, names_extra
from kgedit.timesteps.kinds.rules import BY_SNAPSHOTS, BY_TIME, OTHERWISE, judge_kinds
from kgedit.timesteps.kinds.signals import ENTITY_SIGNALS, KINDS, KINDS_OF_CHANGES, VALUES, signals_of_values
from kgedit.timesteps.kinds.value_signals import VALUE_SIGNALS
from kgedit.wikidata.times import DAY, parse_time

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


def common_properties(signals: pa.Table) -> list[str]:
    """Properties with at least eight rows, by id: each gets a separate feature."""
    counted = pc.value_counts(signals["property"].combine_chunks()).to_pylist()
    return sorted(row["values"] for row in counted if row["counts"] >= 8)


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


NAME = "classifier"
"""Rule name of a verdict by the classifier."""


@dataclass(frozen=True, slots=True)
class KindClassifier:
    """A trained classifier of kinds.

    Attributes:
        kinds: Kinds in the labelled changes, sorted.
        properties: Properties that it distinguishes.
        features: Names of the features that it was trained with.
        models: scikit-learn models; their probabilities are averaged.
        embed: Embedder for features of meaning; None if it was trained without them.
    """

    kinds: tuple[str, ...]
    properties: tuple[str, ...]
    features: tuple[str, ...]
    models: tuple[Any, ...]
    embed: Embedder | None

    def probabilities(self, signals: pa.Table) -> Numbers:
        """Probability of each of `kinds`, (rows, kinds).

        Args:
            signals: Columns SIGNALS_OF_CHANGES.
        """
        if signals.num_rows == 0:
            return np.zeros((0, len(self.kinds)))
        features = matrix(feature_table(signals, self.properties, self.embed), self.features)
        mean: Numbers = np.mean([model.predict_proba(features) for model in self.models], axis=0)
        return mean


@names_extra
def train_classifier(
    labelled: pa.Table, *, signals: pa.Table | None = None, seed: int = 0, embed: Embedder | None = None
) -> KindClassifier:
    """Train a classifier; the same rows, seed and versions give the same classifier.

    Args:
        labelled: Columns VALUES and ``kind``, from kgedit.timesteps.kinds.classifier.read_labelled.
        signals: Signals of these rows, from signals_of_known_values, to be used as features too. None uses only the
            values as text.
        seed: Seed of all randomness in training.
        embed: Computes features of meaning; None trains without them.

    Raises:
        TimestepError: if there are fewer than two kinds.
        MissingExtraError: if scikit-learn is not installed.
    """
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

    kinds = sorted(set(labelled["kind"].to_pylist()))
    if len(kinds) < 2:
        raise TimestepError(f"The labelled changes have {len(kinds)} kind; a classifier needs two or more.")
    signals = signals_of_values(labelled) if signals is None else signals
    properties = tuple(common_properties(signals))
    columns = feature_table(signals, properties, embed)
    known = known_features(columns)
    features, labels = matrix(columns, known), np.array(labelled["kind"].to_pylist())
    models = (
        HistGradientBoostingClassifier(
            max_iter=100, learning_rate=0.08, max_leaf_nodes=15, min_samples_leaf=10, l2_regularization=1.0,
            early_stopping=False, random_state=seed,
        ),
        ExtraTreesClassifier(n_estimators=300, max_features=0.3, random_state=seed),
    )  # fmt: skip
    for model in models:
        model.fit(features, labels)
    return KindClassifier(tuple(kinds), properties, known, models, embed)


def judge_with_classifier(classifier: KindClassifier, signals: pa.Table) -> pa.Table:
    """Kind of each change: by rules about the snapshots first, then by the classifier.

    If the classifier predicts an update, a different value, the dates decide if there are any. A change without an old
    or a new value is judged by rules alone.

    Args:
        classifier: From train_classifier.
        signals: Columns SIGNALS_OF_CHANGES.

    Returns:
        Columns KINDS_OF_CHANGES, row by row.
    """
    by_rules = judge_kinds(signals)
    by_time = judge_kinds(signals, rules=(*BY_TIME, OTHERWISE[-1]))
    snapshots_decide = pc.is_in(by_rules["rule"], value_set=_names(BY_SNAPSHOTS))
    alone = pc.or_(snapshots_decide, pc.is_null(signals["value_type"]))
    probabilities = classifier.probabilities(signals)
    predicted = pa.table(
        {
            "subject": signals["subject"],
            "property": signals["property"],
            "kind": pa.array(np.array(classifier.kinds)[probabilities.argmax(axis=1)], pa.string()),
            "confidence": pa.array(probabilities.max(axis=1, initial=0.0), pa.float64()),
            "signals": pa.array([[NAME]] * signals.num_rows, pa.list_(pa.string())),
            "rule": pa.repeat(NAME, signals.num_rows),
        }
    ).cast(KINDS_OF_CHANGES)
    time_decides = pc.and_(pc.equal(predicted["kind"], "update"), pc.is_in(by_time["rule"], value_set=_names(BY_TIME)))
    return _choose(alone, by_rules, _choose(time_decides, by_time, predicted))


def _names(rules: Sequence[Any]) -> pa.Array:
    return pa.array([rule.name for rule in rules])


def _choose(condition: Any, one: pa.Table, other: pa.Table) -> pa.Table:
    """Choose each row from the first table if the condition holds, else from the second."""
    rows = np.arange(len(one))
    taken = np.where(condition.to_numpy(), rows, rows + len(one))
    return pa.concat_tables([one, other]).take(pa.array(taken)).combine_chunks()


REQUIRED = ("subject", "property", "value_type", "old_text", "new_text", "kind")
"""Columns that a file in kgedit's format must have; the others of VALUES may be missing or empty."""

PUBLISHED = (
    "entity_id",
    "property_id",
    "property_label",
    "datatype",
    "old_value",
    "new_value",
    "old_value_label",
    "new_value_label",
    "old_value_description",
    "new_value_description",
    "label",
)
"""Columns of the published edits that are read; together they identify that format."""

LABELLED = VALUES.append(pa.field("kind", pa.string()))

_KIND_OF_LABEL = {
    "property_value_update": "update",
    "refinement": "refinement",
    "unrefinement": "unrefinement",
    "re_formatting": "reformatting",
    "link_change": "link repair",
    "textual_change": "text edit",
}
_TYPE_OF_DATATYPE = {"wikibase-entityid": "item", "unknown-values": "string"}
_NO_PROPERTIES = {"-1": "label", "-2": "description"}
"""Property numbers in the published edits of changes of a label and of a description."""


def read_labelled(path: Path) -> pa.Table:
    """Read labelled changes from a file: columns LABELLED.

    Args:
        path: CSV with a header, or JSON lines (``.jsonl``), with the columns REQUIRED and any others of VALUES, where
            ``text`` is an entity's label or a literal in the store's spelling: numbers without a plus sign, dates
            truncated at their precision. Or the published edits, with the columns PUBLISHED.

    Raises:
        TimestepError: if the file cannot be read, lacks a column, or has an unknown kind.
    """
    table = _read(path)
    if set(PUBLISHED) <= set(table.schema.names):
        return _read_published(table, path)
    missing = [name for name in REQUIRED if name not in table.schema.names]
    if missing:
        raise TimestepError(
            f"The labelled changes in {path} lack the columns {', '.join(missing)}. Columns that must be there: "
            f"{', '.join(REQUIRED)} (docs/how-to/classify-changes.md)."
        )
    _refuse_unknown(set(table["kind"].to_pylist()) - set(KINDS), KINDS, path)
    columns = {name: table[name] if name in table.schema.names else pa.nulls(len(table)) for name in VALUES.names}
    return pa.table({**columns, "kind": table["kind"]}).cast(LABELLED)


def _read(path: Path) -> pa.Table:
    try:
        if path.suffix == ".jsonl":
            return pa.json.read_json(path)
        texts = dict.fromkeys([*LABELLED.names, *PUBLISHED], pa.string())
        options = pa.csv.ConvertOptions(column_types=texts, strings_can_be_null=True, null_values=[""])
        return pa.csv.read_csv(
            path, convert_options=options, parse_options=pa.csv.ParseOptions(newlines_in_values=True)
        )
    except (OSError, pa.ArrowInvalid) as error:
        raise TimestepError(f"The labelled changes in {path} cannot be read as CSV or JSON lines: {error}") from error


def _read_published(table: pa.Table, path: Path) -> pa.Table:
    """Read the published edits; of several labels of an edit the first one counts."""
    rows = [{name: value or "" for name, value in row.items()} for row in table.select(PUBLISHED).to_pylist()]
    labels = [row["label"].partition(",")[0].strip() for row in rows]
    _refuse_unknown(set(labels) - set(_KIND_OF_LABEL), _KIND_OF_LABEL, path)
    kinds = [_KIND_OF_LABEL[label] for label in labels]
    values = [_values(row) | {"kind": kind} for row, kind in zip(rows, kinds, strict=True)]
    return pa.Table.from_pylist(values, LABELLED)


def _refuse_unknown(unknown: set[str], known: Iterable[str], path: Path) -> None:
    if unknown:
        wrong = ", ".join(sorted(str(kind) for kind in unknown))
        raise TimestepError(f"The labelled changes in {path} have unknown kinds: {wrong}. Known: {', '.join(known)}.")


def _values(row: dict[str, str]) -> dict[str, str | None]:
    """One published edit as a row of VALUES."""
    value_type = _TYPE_OF_DATATYPE.get(row["datatype"], row["datatype"])
    values: dict[str, str | None] = {
        "subject": f"Q{row['entity_id']}",
        "property": _NO_PROPERTIES.get(row["property_id"], f"P{row['property_id']}"),
        "property_label": _known(row["property_label"]),
        "value_type": value_type,
    }
    for side in ("old", "new"):
        text = row[f"{side}_value"].removeprefix('"').removesuffix('"')
        if value_type == "item":
            values[f"{side}_object"] = text
            values[f"{side}_text"] = _known(row[f"{side}_value_label"])
            values[f"{side}_description"] = _known(row[f"{side}_value_description"])
        elif value_type == "time":
            values[f"{side}_text"], values[f"{side}_precision"] = _date(text)
        else:
            values[f"{side}_text"] = text.removeprefix("+") if value_type == "quantity" else text
    return values


def _known(text: str) -> str | None:
    return None if text in ("", "NULL") else text


def _date(text: str) -> tuple[str | None, str | None]:
    """Text and precision as in the store; the published edits have no precision, but 00 for an unknown month or day."""
    try:
        read = parse_time(text.replace(" ", ""), DAY)
    except ValueError:
        return None, None
    return read.text, str(read.precision)
