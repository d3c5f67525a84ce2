"""Answers that a run must contain, and their accepted answers, derived from its spec and its timesteps alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgedit.records.cases import Case, Probe
from kgedit.records.runs import UNEDITED, Answer, ModelState, Preset, RunSpec
from kgedit.runs.evaluator import mark_expiring, probes_under, without_expired
from kgedit.runs.run_folder import AnswerKey
from kgedit.runs.selection import choose_evaluated
from kgedit.runs.sweeps.counting import stops


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """Required fields of the answer to one question."""

    case: Case
    probe: Probe
    preset: Preset

    def differs(self, answer: Answer) -> str | None:
        """Difference of an answer from the timestep and the spec; None if they agree."""
        preset, probe = self.preset, self.probe
        pairs = {
            "list of accepted answers": (answer.answers, probe.answers),
            "relation": (answer.relation, self.case.fact.property),
            "context": (answer.context, preset.context),
            "generation": (answer.generation, preset.generation),
            "truncation": (answer.truncation, preset.truncation),
            "second case": (answer.second_case_id, probe.second_case_id),
            "expiry": (answer.expires, probe.expires),
            "chain": (answer.chain, probe.chain),
        }
        return next((name for name, (found, expected) in pairs.items() if found != expected), None)


def states_of(spec: RunSpec, cases: Mapping[str, list[Case]]) -> Iterator[tuple[ModelState, list[Case]]]:
    """Every state in which a run evaluates, with the cases evaluated then, in the run's order.

    Args:
        cases: Edited cases by timestep.
    """
    marked, asked = mark_expiring(cases), choose_evaluated(cases, spec)
    yield UNEDITED, asked([case for own in marked.values() for case in own])
    timesteps = list(marked)
    for index, timestep in enumerate(timesteps):
        own = marked[timestep]
        if spec.protocol == "single":
            yield ModelState(timestep), own
            continue
        before = [case for other in timesteps[:index] for case in marked[other]]
        earlier = without_expired(before, timesteps[: index + 1]) if spec.evaluate_earlier else []
        for done in stops(spec, len(own)):
            yield ModelState(timestep, done), asked(earlier + own[:done])
        yield ModelState(timestep), asked(earlier + own)


def expected_answers(spec: RunSpec, cases: Mapping[str, list[Case]]) -> dict[AnswerKey, ExpectedAnswer]:
    """All answers of a finished run, by key."""
    return {
        AnswerKey(state, case.timestep, case.case_id, probe.axis, probe.question, preset.name): ExpectedAnswer(
            case, probe, preset
        )
        for state, asked in states_of(spec, cases)
        for preset in spec.presets
        for case in asked
        for probe in probes_under(case, preset)
    }


def answer_faults(answers: Iterable[Answer], expected: Mapping[AnswerKey, ExpectedAnswer]) -> list[str]:
    """Missing, unexpected and changed answers of a run, each as a reason."""
    found: set[AnswerKey] = set()
    unexpected: list[AnswerKey] = []
    changed: dict[str, list[AnswerKey]] = {}
    for answer in answers:
        key = AnswerKey(
            answer.model_state, answer.timestep, answer.case_id, answer.axis, answer.question, answer.preset
        )
        found.add(key)
        wanted = expected.get(key)
        if wanted is None:
            unexpected.append(key)
        elif (what := wanted.differs(answer)) is not None:
            changed.setdefault(what, []).append(key)
    missing = [key for key in expected if key not in found]
    return [
        *_reason(missing, "questions without an answer in answers.jsonl"),
        *_reason(unexpected, "answers to questions that this run does not ask of its timestep"),
        *(
            reason
            for what, keys in changed.items()
            for reason in _reason(keys, f"answers whose {what} is not that of timestep and spec")
        ),
    ]


def _reason(keys: Sequence[AnswerKey], problem: str) -> list[str]:
    if not keys:
        return []
    first = keys[0]
    state = "before any edit" if first.model_state == UNEDITED else f"after {first.model_state.timestep}"
    where = f"{first.case_id}, {first.axis}, preset {first.preset}, {state}"
    return [f"{problem}: {len(keys):,}; the first: {where}"]
