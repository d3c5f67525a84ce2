"""Comparison of verbalizers on the same facts: share that passes the final filters, length and variety.

After WikiBigEdit, table 3, which shows one question of each model for two facts; here every text is measured before any
fallback, including the templates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kgedit.llm.remote.requests import ChatReply, FailedCall
from kgedit.timesteps.verbalizing.rewording import judge_replies
from kgedit.timesteps.verbalizing.wanted import Wanted, faults_of, letters
from kgedit.wording.personas import overlap

SUMMARY = pa.schema(
    [
        ("verbalizer", pa.string()),
        ("axis", pa.string()),
        ("facts", pa.int64()),
        ("questions", pa.int64()),
        ("passed", pa.float64()),
        ("words", pa.float64()),
        ("overlap", pa.float64()),
        ("distinct", pa.float64()),
        ("faults", pa.string()),
    ]
)
"""One row per verbalizer and axis.

questions: number of requested questions, including those of unreadable replies. passed: share of them that pass all
filters, in [0, 1]. Of those that pass: words: mean number of words; overlap: with the nearest template of the same
axis, shared words over all words (Jaccard, mean), 1 for the templates themselves; distinct: different pairs of
neighbouring words over all pairs, without subjects, in (0, 1]: higher is more varied. Null if none passes. faults:
reasons with counts.
"""


@dataclass(frozen=True, slots=True)
class VerbalizerTexts:
    """One verbalizer's texts for one record, unchanged.

    Attributes:
        passed: Texts that pass all filters.
        faults: Reason of each text that fails.
    """

    passed: tuple[str, ...]
    faults: tuple[str, ...]


def texts_of_templates(wanted: Sequence[Wanted]) -> list[VerbalizerTexts]:
    """Texts of the templates for records."""
    found = []
    for one, faults in zip(wanted, faults_of([(one.asking, one.templates) for one in wanted]), strict=True):
        passed = tuple(text for text, fault in zip(one.templates, faults, strict=True) if fault is None)
        found.append(VerbalizerTexts(passed, tuple(fault for fault in faults if fault)))
    return found


def texts_of_model(wanted: Sequence[Wanted], replies: Sequence[ChatReply | FailedCall]) -> list[VerbalizerTexts]:
    """Texts of a model for records."""
    judged = judge_replies(wanted, replies)
    return [VerbalizerTexts(tuple(passed), tuple(reason for reason, _ in failed)) for passed, failed in judged]


def summarize(wanted: Sequence[Wanted], by_verbalizer: Mapping[str, Sequence[VerbalizerTexts]]) -> pa.Table:
    """Compare verbalizers; the schema of the result is SUMMARY.

    Args:
        wanted: Records.
        by_verbalizer: Verbalizer -> its texts for each record.
    """
    rows = []
    for axis in dict.fromkeys(one.axis for one in wanted):
        for name, texts in by_verbalizer.items():
            own = [(one, texts_of_one) for one, texts_of_one in zip(wanted, texts, strict=True) if one.axis == axis]
            rows.append({"verbalizer": name, "axis": axis} | _measures(own))
    return pa.Table.from_pylist(rows, schema=SUMMARY)


def side_by_side(wanted: Sequence[Wanted], by_verbalizer: Mapping[str, Sequence[VerbalizerTexts]]) -> pa.Table:
    """First text of every verbalizer for each record: columns axis, fact, and one per verbalizer."""
    rows = []
    for index, one in enumerate(wanted):
        row = {"axis": one.axis, "fact": _fact(one)}
        for name, texts in by_verbalizer.items():
            texts_of_one = texts[index]
            row[name] = (
                texts_of_one.passed[0]
                if texts_of_one.passed
                else f"({texts_of_one.faults[0]})"
                if texts_of_one.faults
                else "(none)"
            )
        rows.append(row)
    names = ["axis", "fact", *by_verbalizer]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))


def _measures(own: Sequence[tuple[Wanted, VerbalizerTexts]]) -> dict[str, Any]:
    passed = [(one, text) for one, texts_of_one in own for text in texts_of_one.passed]
    faults = Counter(fault for _, texts_of_one in own for fault in texts_of_one.faults)
    asked = len(passed) + faults.total()
    overlaps = [max((overlap(text, other) for other in one.templates), default=0.0) for one, text in passed]
    return {
        "facts": len(own),
        "questions": asked,
        "passed": round(len(passed) / asked, 4) if asked else None,
        "words": _mean(len(text.split()) for _, text in passed),
        "overlap": _mean(overlaps),
        "distinct": _distinct_pairs(passed),
        "faults": "; ".join(f"{fault}: {count}" for fault, count in faults.most_common()),
    }


def _distinct_pairs(passed: Sequence[tuple[Wanted, str]]) -> float | None:
    pairs: Counter[tuple[str, str]] = Counter()
    for one, text in passed:
        words = letters(text).replace(letters(one.asking.subject), "S").split()
        pairs.update(pairwise(words))
    return round(len(pairs) / pairs.total(), 4) if pairs else None


def _mean(values: Iterable[float]) -> float | None:
    given = list(values)
    return round(sum(given) / len(given), 4) if given else None


def _fact(one: Wanted) -> str:
    chain = one.record.get("chain")
    if chain:
        return " → ".join(chain)
    names = [one.record.get("relation"), one.record.get("question"), one.asking.answer]
    return " → ".join(str(name) for name in (one.asking.subject, *names) if name)
