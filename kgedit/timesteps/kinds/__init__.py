"""Kinds of change: distinguishes updates in the world from other changes of a value.

Fewer than a third of real edits of values are updates; the others change a value's precision or spelling, repair a
link, or add a fact that was already true. Signals are computed from snapshots, and an ordered table of rules
(kgedit.timesteps.kinds.rules) gives each change a kind, a confidence and the signals of the deciding rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from kgedit.timesteps.kinds.classifier import KindClassifier, judge_with_classifier, read_labelled, train_classifier
from kgedit.timesteps.kinds.rules import RULES, KindRule, judge_kinds
from kgedit.timesteps.kinds.signals import (
    CHANGES,
    KINDS,
    KINDS_OF_CHANGES,
    check_kinds,
    find_signals,
    signals_in_parts,
    signals_of_known_values,
)
from kgedit.timesteps.kinds.snapshot_tables import WindowChanges

__all__ = [
    "CHANGES",
    "KINDS",
    "KINDS_OF_CHANGES",
    "RULES",
    "KindClassifier",
    "KindRule",
    "WindowChanges",
    "check_kinds",
    "describe_kinds",
    "find_signals",
    "judge_kinds",
    "judge_with_classifier",
    "kinds_in_parts",
    "read_labelled",
    "signals_of_known_values",
    "train_classifier",
]


def describe_kinds(of: WindowChanges, *, spill: Path, classifier: KindClassifier | None = None) -> pa.Table:
    """Determine the kind of each change between two snapshots.

    Args:
        of: The changes and their snapshots.
        spill: Folder for data that does not fit in 192 MB of memory; its files are deleted.
        classifier: Decides, instead of the rules about similarity, whether a value is a different one; None means rules
            alone.

    Returns:
        Columns KINDS_OF_CHANGES: ``subject``, ``property``, ``kind`` (one of KINDS), ``confidence`` in [0, 1],
        ``signals`` (names of the signals that the deciding rule reads) and ``rule`` (its name, or "classifier"); one
        row per change, ordered by subject and property.

    Raises:
        TimestepError: if a subject and property occur twice.
    """
    judged = kinds_in_parts(of, spill=spill, classifier=classifier)
    return pa.concat_tables(judged).sort_by([("subject", "ascending"), ("property", "ascending")])


def kinds_in_parts(of: WindowChanges, *, spill: Path, classifier: KindClassifier | None = None) -> Iterator[pa.Table]:
    """Yield the kinds of some thousand changes at a time, in any order; at least one part. See `describe_kinds`."""
    judge = judge_kinds if classifier is None else partial(judge_with_classifier, classifier)
    for signals in signals_in_parts(of, spill=spill):
        yield judge(signals)
