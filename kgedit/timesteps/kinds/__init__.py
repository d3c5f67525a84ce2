"""Kinds of change: is a changed value an update in the world, or something else?

Of real edits of values fewer than a third are updates; the others make a value more or less precise, write it
otherwise, repair a link, or enter what was true all the time. Signals are computed from snapshots, and an ordered table
of rules (kgedit.timesteps.kinds.rules) gives each change a kind, a confidence and the signals that led there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.kinds.classifier import KindClassifier, judge_with_classifier, train_classifier
from kgedit.timesteps.kinds.columns import CHANGES, KINDS, KINDS_OF_CHANGES, check_kinds
from kgedit.timesteps.kinds.labelled import read_labelled
from kgedit.timesteps.kinds.rules import RULES, KindRule, judge_kinds
from kgedit.timesteps.kinds.signals import find_signals, signals_of_known_values

__all__ = [
    "CHANGES",
    "KINDS",
    "KINDS_OF_CHANGES",
    "RULES",
    "KindClassifier",
    "KindRule",
    "check_kinds",
    "describe_kinds",
    "find_signals",
    "judge_kinds",
    "judge_with_classifier",
    "read_labelled",
    "signals_of_known_values",
    "train_classifier",
]


def describe_kinds(
    old: Snapshot,
    new: Snapshot,
    earlier: Sequence[Snapshot],
    changes: pa.Table,
    *,
    spill: Path,
    classifier: KindClassifier | None = None,
) -> pa.Table:
    """The kind of each change between two snapshots.

    Args:
        old: The older snapshot: its facts, claims and entities are read.
        new: The newer one.
        earlier: All loaded snapshots older than `old`, in any order; without any, nothing is judged a revert.
        changes: One row per subject and property with the columns CHANGES: ``subject``, ``property``, ``old_objects``
            and ``new_objects`` (lists of ids; a literal is the V... id that it has in facts.parquet). Other columns
            are ignored. Objects may be resolved by redirects or not.
        spill: Folder for what does not fit in 192 MB of memory; it is taken away again.
        classifier: Decides, in place of the rules about likeness, whether a value is another one; None for rules alone.

    Returns:
        Columns KINDS_OF_CHANGES: ``subject``, ``property``, ``kind`` (one of KINDS), ``confidence`` in [0, 1],
        ``signals`` (names of what the deciding rule reads) and ``rule`` (its name, or "classifier"); one row for each
        row of `changes`, ordered by subject and property.

    Raises:
        TimestepError: if a subject and property occur twice in `changes`.
    """
    signals = find_signals(old, new, earlier, changes, spill=spill)
    return judge_kinds(signals) if classifier is None else judge_with_classifier(classifier, signals)
