"""Counts the work of a sweep before it runs: edits, and questions to the unedited and the edited model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kgedit.llm.presets import same_text
from kgedit.records.cases import Case
from kgedit.records.runs import Preset, RunSpec
from kgedit.runs.evaluator import probes_under
from kgedit.runs.selection import choose_cases, choose_evaluated
from kgedit.runs.sweeps.planning import PlannedRun
from kgedit.timesteps.edit_files import Edits, open_edits


@dataclass(frozen=True, slots=True)
class RunCount:
    """Work of one run; an upper bound with `only_failed`.

    Attributes:
        edits: Number of cases to edit.
        unedited: Number of questions to the unedited model.
        new: Number of these that no earlier run of the sweep asks; the others are in the answer cache.
        edited: Number of questions to the edited model, over all its states.
    """

    edits: int
    unedited: int
    new: int
    edited: int


class SweepCounter:
    """Counts the work of runs; reads every file of edits once."""

    def __init__(self) -> None:
        self._open = cache(open_edits)
        self._asked: set[bytes] = set()

    def sha256s(self, spec: RunSpec) -> tuple[str, ...]:
        """SHA-256 of each of a run's edits files.

        Raises:
            TimestepError: if they cannot be read.
        """
        return tuple(edits.sha256 for edits in self._edits(spec))

    def edits_and_questions(self, spec: RunSpec) -> tuple[int, int]:
        """Number of cases that a run edits, and of questions in each model state.

        Raises:
            TimestepError: if the edits cannot be read, or no case is left.
            SpecError: if two timesteps have the same name, or the file of cases cannot be read.
        """
        cases = self._cases(spec)
        every = [case for own in cases.values() for case in own]
        asked = choose_evaluated(cases, spec)(every)
        return len(every), sum(_probes(presets[0], asked) for presets in same_text(spec.presets))

    def count(self, run: PlannedRun) -> RunCount:
        """Count the work of a run, after that of all runs counted before.

        Raises:
            TimestepError, SpecError: see `edits_and_questions`.
        """
        spec, cases = run.spec, self._cases(run.spec)
        every = [case for own in cases.values() for case in own]
        asked = choose_evaluated(cases, spec)(every)
        texts = [presets[0] for presets in same_text(spec.presets)]
        keys = {key for preset in texts for key in _questions(spec, preset, asked)}
        new = len(keys - self._asked)
        self._asked |= keys
        return RunCount(
            edits=len(every),
            unedited=sum(_probes(preset, asked) for preset in texts),
            new=new,
            edited=sum(_asked_after(spec, preset, cases) for preset in texts),
        )

    def _cases(self, spec: RunSpec) -> dict[str, list[Case]]:
        return choose_cases(self._edits(spec), spec)[0]

    def _edits(self, spec: RunSpec) -> list[Edits]:
        return [self._open(Path(path)) for path in spec.timesteps]


def _questions(spec: RunSpec, preset: Preset, cases: Sequence[Case]) -> Iterator[bytes]:
    """Hashes that identify questions to an unedited model; demonstrations come from the timesteps."""
    shown = spec.timesteps if preset.shots else ()
    asked_in: tuple[str, ...] = (
        spec.model,
        spec.device,
        spec.dtype,
        preset.context,
        preset.generation,
        preset.truncation,
    )
    limits = (preset.max_new_tokens, preset.stop_entropy, preset.thinking_tokens)
    asked_in += tuple(map(str, (*limits, preset.shots, preset.shots_seed)))
    asked_in += shown
    for case in cases:
        for probe in probes_under(case, preset):
            cloze = case.cloze if preset.wording == "cloze" and probe.axis == "update" else ""
            text = "\0".join((*asked_in, cloze or probe.question, probe.answers[0]))
            yield hashlib.blake2b(text.encode(), digest_size=16).digest()


def _asked_after(spec: RunSpec, preset: Preset, cases: Mapping[str, list[Case]]) -> int:
    """Number of probes evaluated in edited states under one preset."""
    if spec.protocol == "single":
        return sum(_probes(preset, own) for own in cases.values())
    asked, total, past = choose_evaluated(cases, spec), 0, 0
    for own in cases.values():
        earlier = past if spec.evaluate_earlier else 0
        total += earlier + _probes(preset, asked(own))
        total += sum(earlier + _probes(preset, asked(own[:done])) for done in stops(spec, len(own)))
        past += _probes(preset, asked(own))
    return total


def stops(spec: RunSpec, cases: int) -> Iterator[int]:
    """Numbers of edits of a timestep after which all edits so far are evaluated, as in the runner."""
    size, every = spec.batch_size or cases, spec.evaluate_every
    if every:
        for done in range(0, cases, size):
            if done // every > max(0, done - size) // every:
                yield done


def _probes(preset: Preset, cases: Sequence[Case]) -> int:
    return sum(len(probes_under(case, preset)) for case in cases)
