"""Tables of a report, in order: overviews first, then all measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kgedit.analysis.breakdowns import (
    TWO_HOP_BREAKDOWNS,
    Counts,
    breakdown_table,
    locality_table,
    over_time_table,
    scenario_breakdown,
)
from kgedit.analysis.comparisons import paired_table, seeds_table
from kgedit.analysis.over_models import averages_tables, by_timestep_table, means_table
from kgedit.analysis.overviews import (
    ability_table,
    axis_table,
    groups_table,
    overview_table,
    presets_table,
    runs_table,
    schedule_table,
    speed_table,
    tasks_table,
)
from kgedit.analysis.runs import Run, comparable_groups, groups_over_models
from kgedit.analysis.tables import Table, preset_names
from kgedit.analysis.timesteps import batches_table, collapse_table, lifelong_table, retention_table
from kgedit.analysis.two_hops import found_hops_table, retrieval_table, single_hops_table, specificity_table
from kgedit.analysis.wikifactdiff import bleedover_table, neighbours_table, scenarios_table, wikifactdiff_table
from kgedit.analysis.wrong_answers import (
    agreement_table,
    beyond_answer_table,
    error_table,
    judged_error_table,
    unsolved_by_timestep_table,
    unsolved_table,
)
from kgedit.records.cases import AXES

_OfPreset = Callable[[Sequence[Run], str], Table | None]

_OVER_TIME: tuple[_OfPreset, ...] = (retention_table, lifelong_table, collapse_table, batches_table)
_LOCALITY: tuple[_OfPreset, ...] = (locality_table, bleedover_table, neighbours_table)
_SCENARIOS: tuple[_OfPreset, ...] = (scenario_breakdown, scenarios_table)
_ERRORS: tuple[_OfPreset, ...] = (error_table, judged_error_table, beyond_answer_table)
_TWO_HOPS: tuple[_OfPreset, ...] = (retrieval_table, found_hops_table, single_hops_table)
_OVER_MODELS: tuple[_OfPreset, ...] = (means_table, by_timestep_table, unsolved_by_timestep_table)


def summary_tables(runs: Sequence[Run], *, by: Sequence[str] = (), counts: Counts | None = None) -> list[Table]:
    """For each comparable group, the table of presets side by side, and the breakdowns.

    Args:
        by: See `overview_tables`.
        counts: See `overview_tables`.
    """
    return _by_group(runs, lambda own: [presets_table(own), *_breakdowns(own, by, counts)])


def overview_tables(runs: Sequence[Run], *, by: Sequence[str] = (), counts: Counts | None = None) -> list[Table]:
    """For each comparable group: presets and axes side by side, edits as they accumulate, the runs.

    Args:
        by: Breakdowns of scores, each one of BREAKDOWNS; one table each.
        counts: Counts for the breakdowns that need them.
    """
    return _by_group(runs, lambda own: [*_overviews(own), *_breakdowns(own, by, counts)])


def report_tables(runs: Sequence[Run], *, by: Sequence[str] = (), counts: Counts | None = None) -> list[Table]:
    """All tables of a report: for each comparable group, most compact first.

    They are followed by tables over all models of the same cases, averages over data sets, and unsolved questions.

    Args:
        by: See `overview_tables`.
        counts: See `overview_tables`.
    """
    # A breakdown that is part of every report is not repeated if `by` names it.
    tables = _by_group(
        runs, lambda own: list(dict.fromkeys([*_overviews(own), *_breakdowns(own, by, counts), *_details(own)]))
    )
    unsolved = unsolved_table(runs)
    return [*tables, *_over_models(runs), *averages_tables(runs), *([unsolved] if unsolved else [])]


def _over_models(runs: Sequence[Run]) -> list[Table]:
    """Tables over several models; titled with the cases' hash if cases differ."""
    parts = groups_over_models(runs)
    tables = [(part[0].scores.cases_sha256[:8], table) for part in parts for table in _each(part, _OVER_MODELS)]
    if len(parts) == 1:
        return [table for _, table in tables]
    return [replace(table, title=f"{table.title}, cases {cases}") for cases, table in tables]


def _by_group(runs: Sequence[Run], tables_of: Callable[[Sequence[Run]], list[Table]]) -> list[Table]:
    """Tables of each group; several groups are listed in a table first, and their numbers are added to all titles."""
    groups = comparable_groups(runs)
    if len(groups) == 1:
        return tables_of(groups[0].runs)
    named = [
        replace(table, title=f"Group {number}: {table.title}")
        for number, group in enumerate(groups, start=1)
        for table in tables_of(group.runs)
    ]
    return [groups_table(groups), *named]


def _overviews(runs: Sequence[Run]) -> list[Table]:
    presets = preset_names(runs)
    tables = [presets_table(runs), *(overview_table(runs, preset) for preset in presets)]
    tables += _each(runs, (seeds_table, schedule_table))
    ability = [table for table in (wikifactdiff_table(runs), ability_table(runs), tasks_table(runs)) if table]
    return [*tables, *ability, runs_table(runs)]


def _breakdowns(runs: Sequence[Run], by: Sequence[str], counts: Counts | None) -> list[Table]:
    presets = preset_names(runs)
    makers = (_breakdown, over_time_table)
    found = [make(runs, name, preset=preset, counts=counts) for name in by for preset in presets for make in makers]
    return [table for table in found if table]


def _breakdown(runs: Sequence[Run], by: str, *, preset: str, counts: Counts | None) -> Table | None:
    if by in TWO_HOP_BREAKDOWNS:
        return specificity_table(runs, by, preset=preset, counts=counts)
    return breakdown_table(runs, by, preset=preset, counts=counts)


def _details(runs: Sequence[Run]) -> list[Table]:
    presets = preset_names(runs)
    axes = [axis_table(runs, axis, preset=preset) for axis in AXES for preset in presets]
    tables = _each(runs, (paired_table,)) + [table for table in axes if table]
    tables += _each(runs, (*_LOCALITY, *_SCENARIOS, *_OVER_TIME, *_TWO_HOPS, *_ERRORS))
    return [*tables, *(table for table in (agreement_table(runs), speed_table(runs)) if table)]


def _each(runs: Sequence[Run], kinds: Sequence[_OfPreset]) -> list[Table]:
    """Non-empty tables of the given kinds under every preset."""
    return [table for kind in kinds for preset in preset_names(runs) if (table := kind(runs, preset))]
