"""Agreement of two ways of judging: share of equal verdicts, and Cohen's kappa."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kgedit.clustered_statistics import Floats, Integers, clustered_interval
from kgedit.metrics.judged import AnswerGroup, Judged, pool
from kgedit.records.scores import Agreement

RULES = ("exact_match", "exact_match_any", "first_line", "contains", "contains_any", "single_answer", "token_f1")
"""Metrics with a right or wrong verdict; those by which the run was scored are used."""

RIGHT_FROM = 0.5
"""Minimum value of a right answer; all rules except token_f1 are 0 or 1."""


def cohens_kappa(one: Sequence[bool], other: Sequence[bool]) -> float | None:
    """Agreement beyond chance: (observed - expected) / (1 - expected); None if either input is constant.

    Source: Cohen 1960, A Coefficient of Agreement for Nominal Scales.
    """
    first, second = np.asarray(one, dtype=bool), np.asarray(other, dtype=bool)
    if len({*first.tolist()}) < 2 or len({*second.tolist()}) < 2:
        return None
    expected = first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean())
    return float(((first == second).mean() - expected) / (1 - expected))


def agreements(groups: Mapping[AnswerGroup, Judged], presets: Sequence[str]) -> tuple[Agreement, ...]:
    """Each rule against the judge, over all answers of a preset; empty if no answers were judged."""
    found = []
    for preset in presets:
        # Each axis has its own metrics, so only axes with the same metrics can be pooled.
        by_metrics: dict[tuple[str, ...], list[Judged]] = {}
        for asked, group in groups.items():
            if asked.preset == preset and "judge" in group.metrics:
                by_metrics.setdefault(group.metrics, []).append(group)
        pooled = [pool(same) for same in by_metrics.values()]
        for rule in RULES:
            pairs = [_pairs(group, rule) for group in pooled if rule in group.metrics]
            if pairs and len(values := np.concatenate([values for values, _ in pairs])):
                relations = np.concatenate([clusters for _, clusters in pairs])
                found.append(_agreement(preset, rule, values, relations))
    return tuple(found)


def _pairs(group: Judged, rule: str) -> tuple[Floats, Integers]:
    """Answers judged by both: values of judge and rule, shape (answers, 2), and the relation of each answer."""
    columns = group.values[:, [group.metrics.index("judge"), group.metrics.index(rule)]]
    both = ~np.isnan(columns).any(axis=1)
    return columns[both], group.clusters[both]


def _agreement(preset: str, rule: str, values: Floats, relations: Integers) -> Agreement:
    right = values >= RIGHT_FROM
    same = (right[:, 0] == right[:, 1]).astype(np.float64)
    low, high = clustered_interval(same, relations) or (None, None)
    kappa = cohens_kappa(right[:, 0].tolist(), right[:, 1].tolist())
    return Agreement(
        preset=preset,
        rule=rule,
        n=len(right),
        share=round(float(same.mean()), 6),
        low=None if low is None else round(low, 6),
        high=None if high is None else round(high, 6),
        kappa=None if kappa is None else round(kappa, 6),
    )
