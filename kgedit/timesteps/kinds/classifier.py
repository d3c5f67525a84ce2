"""Classifier of kinds, trained from a file of labelled changes (extra ``classifier``: scikit-learn).

Trained models are never stored: training takes seconds, the file and the seed determine the result, and no pickle has
to be trusted. The classifier sees only the two values, so rules about dates, ranks and history are applied before it
and, if it predicts a different value, after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.errors import TimestepError
from kgedit.extras import names_extra
from kgedit.timesteps.kinds.columns import KINDS_OF_CHANGES
from kgedit.timesteps.kinds.features import Embedder, Numbers, common_properties, feature_table, known_features, matrix
from kgedit.timesteps.kinds.rules import BY_SNAPSHOTS, BY_TIME, OTHERWISE, judge_kinds
from kgedit.timesteps.kinds.signals import signals_of_values

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
        labelled: Columns VALUES and ``kind``, from kgedit.timesteps.kinds.labelled.read_labelled.
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
