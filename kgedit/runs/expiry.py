"""Probes that expire because a later timestep of the same run edits a fact that answers them.

After that edit another answer is right, and giving the old one indicates neither forgetting nor damage. Probes of
changes that are not edits of the run stay, because the model was not taught anything about them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kgedit.records.cases import Case, Fact, Probe
from kgedit.wikidata.ids import is_property

_Edited = tuple[str, str]
"""Subject and property of an edit."""


def mark_expiring(cases: Mapping[str, list[Case]]) -> dict[str, list[Case]]:
    """Set the later timestep in which each probe expires (`expires`).

    Args:
        cases: Cases by timestep, in the order of learning.
    """
    marked: dict[str, list[Case]] = {}
    edited_later: dict[_Edited, list[tuple[int, str]]] = {}
    timesteps = list(cases)
    for turn, (timestep, own) in reversed(list(enumerate(cases.items()))):
        marked[timestep] = [
            dataclasses.replace(case, probes=tuple(_mark(probe, edited_later, timesteps) for probe in case.probes))
            for case in own
        ]
        for case in own:
            if is_property(case.fact.property):
                edited_later.setdefault(_key(case.fact), []).append((turn, case.fact.object))
    return {timestep: marked[timestep] for timestep in timesteps}


def without_expired(cases: Sequence[Case], learned: Sequence[str]) -> list[Case]:
    """Cases without the probes that expired in one of the timesteps learned since."""
    left = []
    for case in cases:
        probes = tuple(probe for probe in case.probes if probe.expires not in learned)
        left.append(case if len(probes) == len(case.probes) else dataclasses.replace(case, probes=probes))
    return left


def _mark(probe: Probe, edited_later: Mapping[_Edited, list[tuple[int, str]]], timesteps: Sequence[str]) -> Probe:
    """The probe with the first later timestep that gives one of its facts another object."""
    turns = [turn for fact in probe.facts for turn, taught in edited_later.get(_key(fact), ()) if taught != fact.object]
    return dataclasses.replace(probe, expires=timesteps[min(turns)]) if turns else probe


def _key(fact: Fact) -> _Edited:
    return fact.subject, fact.property
