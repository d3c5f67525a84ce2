"""Overlaps between timesteps of a run: probes of facts that other edits change, and ids that several cases share.

A probe expires when a later timestep of the run edits a fact that answers it: then another answer is right, and giving
the old one indicates neither forgetting nor damage. A locality probe is not asked at all if an edit of its own or an
earlier timestep edits its fact, because a model that keeps that edit answers it differently from the unedited one.
Probes of changes that are not edits of the run stay, because the model was not taught anything about them. Facts of
files without ids are compared by their words (kgedit.timesteps.edit_files.same_facts).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set

from kgedit.records.cases import LOCALITY_AXES, Case, Fact, Probe
from kgedit.timesteps.edit_files.same_facts import FactKey, has_ids, keys_of_edit, keys_of_probe, normal, same_object


def leave_out_edited(cases: Mapping[str, list[Case]]) -> tuple[dict[str, list[Case]], dict[str, int]]:
    """Leave out locality probes whose fact is edited in their own or an earlier timestep, to any object.

    Args:
        cases: Cases by timestep, in the order of learning.

    Returns:
        The cases, and the number of probes left out, by timestep.
    """
    edited: set[FactKey] = set()
    left: dict[str, list[Case]] = {}
    counts: dict[str, int] = {}
    for timestep, own in cases.items():
        edited.update(key for case in own for key in keys_of_edit(case))
        left[timestep] = [_without_edited(case, edited) for case in own]
        counts[timestep] = sum(len(case.probes) for case in own) - sum(len(case.probes) for case in left[timestep])
    return left, counts


def mark_expiring(cases: Mapping[str, list[Case]]) -> dict[str, list[Case]]:
    """Set the later timestep in which each probe expires (`expires`).

    Args:
        cases: Cases by timestep, in the order of learning.
    """
    marked: dict[str, list[Case]] = {}
    edited_later: dict[FactKey, list[tuple[int, Fact]]] = {}
    timesteps = list(cases)
    for turn, (timestep, own) in reversed(list(enumerate(cases.items()))):
        marked[timestep] = [
            dataclasses.replace(
                case, probes=tuple(_mark(probe, case, edited_later, timesteps) for probe in case.probes)
            )
            for case in own
        ]
        for case in own:
            for key in keys_of_edit(case):
                edited_later.setdefault(key, []).append((turn, case.fact))
    return {timestep: marked[timestep] for timestep in timesteps}


def count_conflicting(cases: Sequence[Case]) -> int:
    """Number of edits of a timestep whose fact another of its edits gives an answer that they do not accept.

    Only facts without ids count: a timestep or file with ids may have several values of one fact.
    """
    words = [(case, keys_of_edit(case)) for case in cases if not has_ids(case.fact)]
    taught: dict[FactKey, set[str]] = {}
    for case, keys in words:
        for key in keys:
            taught.setdefault(key, set()).add(normal(case.answer))
    return sum(any(taught[key] - _accepted(case) for key in keys) for case, keys in words)


def mark_shared_ids(cases: Mapping[str, list[Case]]) -> dict[str, list[Case]]:
    """Mark the cases whose id a different case of another timestep has too (`shares_id`).

    An id made of the fact's own ids names the same fact in every timestep, so it is not marked.
    """
    known: dict[str, set[tuple[str, ...]]] = {}
    for own in cases.values():
        for case in own:
            known.setdefault(case.case_id, set()).add(_identity(case))
    return {
        timestep: [dataclasses.replace(case, shares_id=True) if len(known[case.case_id]) > 1 else case for case in own]
        for timestep, own in cases.items()
    }


def _identity(case: Case) -> tuple[str, ...]:
    fact = case.fact
    ids = f"{fact.subject}:{fact.property}:{fact.object}"
    # The ids of a file without ids are made of row numbers, so they say nothing about the fact.
    return (ids,) if case.case_id.partition("#")[0] == ids else (fact.subject_label, case.question, case.answer)


def _accepted(case: Case) -> set[str]:
    """Answers that a case's update question accepts."""
    accepted = {normal(text) for probe in case.probes if probe.axis == "update" for text in probe.answers}
    return accepted | {normal(case.answer)}


def without_expired(cases: Sequence[Case], learned: Sequence[str]) -> list[Case]:
    """Cases without the probes that expired in one of the timesteps learned since."""
    return [_only(case, lambda probe: probe.expires not in learned) for case in cases]


def _only(case: Case, kept: Callable[[Probe], bool]) -> Case:
    """The case with some of its probes."""
    probes = tuple(probe for probe in case.probes if kept(probe))
    return case if len(probes) == len(case.probes) else dataclasses.replace(case, probes=probes)


def _without_edited(case: Case, edited: Set[FactKey]) -> Case:
    """The case without the locality probes whose fact is edited."""
    return _only(
        case,
        lambda probe: (
            probe.axis not in LOCALITY_AXES
            or all(edited.isdisjoint(keys_of_probe(probe, fact, case)) for fact in probe.facts)
        ),
    )


def _mark(
    probe: Probe, case: Case, edited_later: Mapping[FactKey, list[tuple[int, Fact]]], timesteps: Sequence[str]
) -> Probe:
    """The probe with the first later timestep that gives one of its facts another object; for locality, any object."""
    turns = [
        turn
        for fact in probe.facts
        for key in keys_of_probe(probe, fact, case)
        for turn, taught in edited_later.get(key, ())
        if probe.axis in LOCALITY_AXES or not same_object(taught, fact)
    ]
    return dataclasses.replace(probe, expires=timesteps[min(turns)]) if turns else probe
