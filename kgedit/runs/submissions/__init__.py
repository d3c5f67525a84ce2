"""Leaderboard submissions: checks that a run is complete, documented, and consistent with its timestep and its answers.

A board is a folder, for example of a git or hub repository, with a folder for each run under entries/. A check
cannot detect fabricated answers that are scored correctly. For that the run must be repeated from the spec and
the seed in its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.errors import DamagedFileError, KgeditError, SubmissionError, TimestepError
from kgedit.progress import step
from kgedit.records.cases import Case, Probe
from kgedit.records.published import SubmittedTimestep
from kgedit.records.runs import UNEDITED, Answer, ModelState, Preparation, Preset, RunEnvironment, RunSpec, Selection
from kgedit.records.scores import RunScores
from kgedit.runs.evaluator import probes_under
from kgedit.runs.overlaps import mark_expiring, without_expired
from kgedit.runs.run_files import (
    case_table,
    read_answers,
    read_edit_costs,
    read_environment,
    read_preparation,
    read_scores,
    read_spec,
    require_run,
)
from kgedit.runs.run_folder import AnswerKey
from kgedit.runs.scoring import measure_run
from kgedit.runs.selection import choose_cases, choose_evaluated
from kgedit.runs.sweeps.execution import stops
from kgedit.timesteps.edit_files import Edits, open_edits
from kgedit.timesteps.timestep import Timestep

Found = TypeVar("Found")

_STEPS = 4  # of check_submission, as reported to its progress


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A run that passed all checks; `cases` are the edited ones, rows of kgedit.records.answer_table.CASES."""

    folder: Path
    spec: RunSpec
    environment: RunEnvironment
    preparation: Preparation | None
    selection: tuple[Selection, ...]
    scores: RunScores
    timesteps: tuple[SubmittedTimestep, ...]
    cases: pa.Table


def check_run(folder: Path, *, timesteps: Sequence[Path] = ()) -> CheckedRun:
    """Check everything that can be checked without the model.

    Args:
        folder: Folder of the run.
        timesteps: Current paths of its timesteps, in order; empty means the paths in its spec.

    Raises:
        TimestepError: if the folder is not a run.
        SubmissionError: with every reason why the run is rejected.
    """
    faults: list[str] = []
    step("reading the run", 0, _STEPS)
    require_run(folder)
    spec = _read(lambda: read_spec(folder), faults)
    environment = _read(lambda: read_environment(folder), faults)
    scores = _read(lambda: read_scores(folder), faults)
    preparation = _read(lambda: read_preparation(folder), faults)
    selection = _read(lambda: _read_selection(folder), faults)
    if environment is None and (folder / "spec.yaml").is_file():
        faults.append("environment.json is missing or of another version: the environment of the run is unknown")
    if spec is None or environment is None:
        raise SubmissionError(folder, faults)
    faults += _settings_faults(spec, environment, preparation)
    step("checking timesteps", 1, _STEPS)
    opened = _open_timesteps(spec, environment, timesteps, faults)
    edited = None if opened is None else _read(lambda: _edited_cases(folder, spec, opened), faults)
    step("checking cases and answers", 2, _STEPS)
    if edited is not None:
        faults += _case_faults(folder, spec, edited, selection or ())
    step("computing scores", 3, _STEPS)
    if scores is not None:
        faults += _score_faults(folder, spec, scores)
    if faults or scores is None or opened is None or edited is None:
        raise SubmissionError(folder, list(dict.fromkeys(faults)))
    return CheckedRun(
        folder=folder,
        spec=spec,
        environment=environment,
        preparation=preparation,
        selection=selection or (),
        scores=scores,
        timesteps=tuple(_submitted(edits) for edits in opened),
        cases=case_table([case for own in edited.values() for case in own]),
    )


def _read(read: Callable[[], Found], faults: list[str]) -> Found | None:
    try:
        return read()
    except KgeditError as error:
        faults.append(str(error))
        return None


def _read_selection(folder: Path) -> tuple[Selection, ...]:
    path = folder / "selection.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[Selection, ...])
    except FileNotFoundError as error:
        raise TimestepError(f"{path} is missing") from error
    except (OSError, msgspec.DecodeError) as error:
        again = "Give the run's command again: kgedit run-edit"
        raise TimestepError(f"{path} cannot be read: {error}. {again}") from error


def _settings_faults(spec: RunSpec, env: RunEnvironment, preparation: Preparation | None) -> Iterator[str]:
    """Settings that the run does not record, or records twice with different values."""
    if not env.packages.get("kgedit"):
        yield "environment.json does not record kgedit's version"
    if not env.model.fingerprint:
        yield "environment.json does not record the hash of the model's weights"
    if env.model.name != spec.model:
        yield f"spec.yaml names the model {spec.model}, environment.json {env.model.name}"
    if env.seed != spec.seed:
        yield f"the seed is {spec.seed} in spec.yaml and {env.seed} in environment.json"
    if len(env.timesteps) != len(spec.timesteps):
        yield f"spec.yaml names {len(spec.timesteps)} timesteps, environment.json {len(env.timesteps)}"
    without = [preset.name for preset in spec.presets if preset.name not in env.contexts]
    if without:
        yield f"environment.json has no hash of the context of {', '.join(without)}"
    if preparation is None:
        yield "prepared.json is missing: the settings that the method used are unknown"
    elif preparation.settings != env.settings:
        yield "prepared.json and environment.json record different settings of the method"
    other = [name for name, given in spec.settings.items() if given is not None and env.settings.get(name) != given]
    if other:
        yield f"spec.yaml sets {', '.join(sorted(other))} to other values than those recorded in environment.json"


def _open_timesteps(spec: RunSpec, env: RunEnvironment, given: Sequence[Path], faults: list[str]) -> list[Edits] | None:
    """Open the run's timesteps; None if one is missing or is a different one, which is a fault."""
    paths = list(given) or [Path(path) for path in spec.timesteps]
    if len(paths) != len(env.timesteps):
        faults.append(f"{len(env.timesteps)} timesteps were learned, and {len(paths)} are given")
        return None
    opened = []
    for path, learned in zip(paths, env.timesteps, strict=True):
        try:
            edits = open_edits(path)
        except DamagedFileError as error:
            faults.append(str(error))
            continue
        except KgeditError as error:
            faults.append(str(error))
            faults.append(
                f"Give the current path of {learned.name}: --timestep FOLDER, once for each timestep, in order"
            )
            continue
        if edits.sha256 != learned.sha256:
            faults.append(
                f"{path} is not the timestep of the run: its hash is {edits.sha256[:16]}…, that of the run's "
                f"{learned.name} is {learned.sha256[:16]}…"
            )
            continue
        if isinstance(edits, Timestep) and not edits.has_checksums:
            faults.append(f"{edits.folder}/timestep.json has no hashes of its tables: an earlier kgedit exported it")
            continue
        opened.append(edits)
    return opened if len(opened) == len(paths) else None


def _edited_cases(folder: Path, spec: RunSpec, timesteps: Sequence[Edits]) -> dict[str, list[Case]]:
    """Cases that the spec selects, except that only the run records which ones the unedited model already answered."""
    named = set(_edited_names(folder))
    return {
        name: [case for case in own if not spec.only_failed or (name, case.case_id) in named]
        for name, own in choose_cases(timesteps, spec)[0].items()
    }


def _case_faults(
    folder: Path, spec: RunSpec, edited: Mapping[str, list[Case]], selection: Sequence[Selection]
) -> Iterator[str]:
    """Cases, edits and answers that are missing, superfluous, or not those of the timesteps."""
    faults: list[str] = []
    named = _edited_names(folder)
    every = [case for own in edited.values() for case in own]
    keys = [(case.timestep, case.case_id) for case in every]
    if keys != named:
        away, more = len(set(keys) - set(named)), len(set(named) - set(keys))
        yield (
            f"edited_cases.txt does not contain the cases that the spec chooses: {away:,} are missing, {more:,} are "
            f"not among them, of {len(keys):,}"
        )
    if [(one.timestep, one.edited) for one in selection] != [(name, len(own)) for name, own in edited.items()]:
        yield "selection.json does not record the numbers of cases that the spec selects"
    yield from _table_of_cases(folder, every)
    yield from _edit_faults(folder, every)
    answers = _read(lambda: list(read_answers(folder)), faults)
    yield from faults
    if answers is not None:
        yield from _answer_faults(answers, _expected_answers(spec, edited))


def _edited_names(folder: Path) -> list[tuple[str, str]]:
    path = folder / "edited_cases.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [(name, case_id) for name, _, case_id in (line.partition("\t") for line in lines)]


def _table_of_cases(folder: Path, cases: Sequence[Case]) -> Iterator[str]:
    """Differences between cases.parquet and the timestep, ignoring columns that earlier versions did not write."""
    path = folder / "cases.parquet"
    if not path.is_file():
        yield "cases.parquet is missing: an earlier kgedit made the run"
        return
    try:
        found = pq.read_table(path)
        wanted = case_table(cases)
        names = [name for name in wanted.column_names if name in found.column_names]
        same = {"case", "object", "old_answers"} <= set(names) and found.select(names).equals(wanted.select(names))
    except (OSError, pa.ArrowException):
        same = False
    if not same:
        yield "cases.parquet does not contain the edited cases of the timestep"


def _edit_faults(folder: Path, cases: Sequence[Case]) -> Iterator[str]:
    faults: list[str] = []
    costs = _read(lambda: list(read_edit_costs(folder)), faults)
    yield from faults
    if costs is None:
        return
    given = {(cost.timestep, case_id) for cost in costs for case_id in cost.case_ids}
    wanted = {(case.timestep, case.case_id) for case in cases}
    if wanted - given:
        first = min(wanted - given)
        yield f"cases that edits.jsonl did not edit: {len(wanted - given):,}; the first: {first[1]} of {first[0]}"
    if given - wanted:
        yield f"edits of cases that the spec does not choose: {len(given - wanted):,}"


def _score_faults(folder: Path, spec: RunSpec, scores: RunScores) -> Iterator[str]:
    faults: list[str] = []
    computed = _read(lambda: measure_run(folder, also=scores.also), faults)
    yield from faults
    if computed is not None:
        yield from score_differences(scores, computed)
    measured = {score.text for score in scores.ability}
    if spec.ability and not measured:
        yield f"the spec asks for the perplexity of {spec.ability}, and ability.jsonl has none"
    tasks = {score.task for score in scores.ability_tasks}
    if spec.ability_tasks and len(tasks) < len(spec.ability_tasks):
        yield f"the spec asks for {len(spec.ability_tasks)} tasks, and ability_tasks.jsonl has {len(tasks)}"


def _submitted(edits: Edits) -> SubmittedTimestep:
    tables: Mapping[str, Mapping[str, str]] = edits.manifest.get("tables", {}) if isinstance(edits, Timestep) else {}
    return SubmittedTimestep(
        name=edits.name,
        sha256=edits.sha256,
        tables={name: stated["sha256"] for name, stated in sorted(tables.items())},
        cases=sum(1 for _ in edits.cases()),
    )


TOLERANCE = 2e-6
"""Scores are rounded to six digits; sums on another processor may differ in the last digit."""

_OF_A_SCORE = ("stage", "model_state", "timestep", "axis", "preset", "metric")


def score_differences(stated: RunScores, computed: RunScores, *, leave_out: frozenset[str] = frozenset()) -> list[str]:
    """Differences, each as a reason; of several different scores, the first ones and their number.

    Args:
        leave_out: Fields of RunScores that are not compared.
    """
    one, other = (_plain(scores, leave_out) for scores in (stated, computed))
    reasons = _of_scores(one.pop("scores"), other.pop("scores"))
    paths = list(_differing(one, other, ""))
    if paths:
        reasons.append(f"scores.json and the scores computed from the run's files differ in {', '.join(paths[:5])}")
    return reasons


def _plain(scores: RunScores, leave_out: frozenset[str]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(scores)
    return {name: value for name, value in plain.items() if name not in leave_out}


def _of_scores(stated: list[dict[str, Any]], computed: list[dict[str, Any]]) -> list[str]:
    one, other = ({_key(score): score for score in scores} for scores in (stated, computed))
    wrong = [key for key in (*one, *(key for key in other if key not in one)) if _wrong(one.get(key), other.get(key))]
    if not wrong:
        return []
    key = wrong[0]
    means = [f"{score['mean']:.4f}" if (score := side.get(key)) else "nothing" for side in (one, other)]
    what = " ".join(str(part) for part in key if isinstance(part, str))
    return [
        f"scores that do not follow from the answers: {len(wrong):,}; the first: {what} is {means[0]} in scores.json, "
        f"and {means[1]} computed again. Measure it again: kgedit report --rescore RUN"
    ]


def _key(score: Mapping[str, Any]) -> tuple[object, ...]:
    state = score["model_state"]
    return tuple((state["timestep"], state["edits"]) if state and n == "model_state" else score[n] for n in _OF_A_SCORE)


def _wrong(stated: Mapping[str, Any] | None, computed: Mapping[str, Any] | None) -> bool:
    return stated is None or computed is None or next(_differing(stated, computed, ""), None) is not None


def _differing(one: Any, other: Any, path: str) -> Iterator[str]:
    """Paths of the values that differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            yield from _differing(one.get(name), other.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from _differing(first, second, f"{path}[{index}]")
    elif isinstance(one, float) and isinstance(other, float | int):
        if abs(one - other) > TOLERANCE * max(1.0, abs(one)):
            yield path
    elif one != other:
        yield path


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


def _states_of(spec: RunSpec, cases: Mapping[str, list[Case]]) -> Iterator[tuple[ModelState, list[Case]]]:
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


def _expected_answers(spec: RunSpec, cases: Mapping[str, list[Case]]) -> dict[AnswerKey, ExpectedAnswer]:
    """All answers of a finished run, by key."""
    return {
        AnswerKey(state, case.timestep, case.case_id, probe.axis, probe.question, preset.name): ExpectedAnswer(
            case, probe, preset
        )
        for state, asked in _states_of(spec, cases)
        for preset in spec.presets
        for case in asked
        for probe in probes_under(case, preset)
    }


def _answer_faults(answers: Iterable[Answer], expected: Mapping[AnswerKey, ExpectedAnswer]) -> list[str]:
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
