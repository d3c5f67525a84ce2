"""Edits that belong together, such as those of an MQuAKE instance: all are applied before its chain is evaluated.

With the protocol "single", an instance is edited, evaluated and undone as a whole. Where edits accumulate, instances
share edits: each different edit is applied once, and a chain is evaluated with the last of its edits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kgedit.records.cases import Case, Probe

_Edit = tuple[str, str]
"""Question and answer; two cases with the same pair are the same edit."""


@dataclass(frozen=True, slots=True)
class MergedInstances:
    """Cases in the order of editing, each different edit once.

    Attributes:
        cases: The cases.
        contradicted: Probes left out because another edit changes one of their facts.
    """

    cases: list[Case]
    contradicted: int = 0


def edit_units(cases: Sequence[Case]) -> list[list[Case]]:
    """Consecutive cases of the same group together, every other case alone."""
    keyed = ((index if case.group is None else case.group, case) for index, case in enumerate(cases))
    return [[case for _, case in unit] for _, unit in groupby(keyed, key=lambda pair: pair[0])]


def batched(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """The cases in order, at most `size` at a time."""
    return (list(cases[start : start + size]) for start in range(0, len(cases), size))


def merge_instances(cases: Sequence[Case]) -> MergedInstances:
    """Merge cases of instances that are the same edit; cases without a group are left unchanged.

    The first case of an edit keeps its position. All probes of an instance other than those of its single edits move to
    the last of its edits, unless another edit gives one of their facts a different object.
    """
    kept: dict[object, Case] = {}
    for index, case in enumerate(cases):
        kept.setdefault(index if case.group is None else _edit(case), case)
    place = {key: index for index, key in enumerate(kept)}
    taught: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in kept.values():
        taught[case.fact.subject, case.fact.property].add(case.fact.object)
    moved: dict[object, list[Probe]] = defaultdict(list)
    contradicted = 0
    for unit in edit_units(cases):
        if unit[0].group is None:
            continue
        last = max(map(_edit, unit), key=place.__getitem__)
        asked = [probe for case in unit for probe in case.probes if probe.axis != "update"]
        right = [probe for probe in asked if not _is_contradicted(probe, taught)]
        moved[last] += right
        contradicted += len(asked) - len(right)
    merged = [
        case if case.group is None else replace(case, probes=(case.probes[0], *_once(moved[key])))
        for key, case in kept.items()
    ]
    return MergedInstances(merged, contradicted)


def _edit(case: Case) -> _Edit:
    return case.question, case.answer


def _once(probes: Sequence[Probe]) -> list[Probe]:
    """First probe of each question on an axis: instances of the same chain have the same questions."""
    return list({(probe.axis, probe.question): probe for probe in reversed(probes)}.values())[::-1]


def _is_contradicted(probe: Probe, taught: dict[tuple[str, str], set[str]]) -> bool:
    """Whether an edit gives one of a probe's facts another object."""
    return any(taught.get((fact.subject, fact.property), set()) - {fact.object} for fact in probe.facts)
