"""Estimates for `up`: time, disk, memory and number of questions, each with its basis.

Counts are taken from the first bytes of dumps and from existing snapshots and timesteps, otherwise from rates. Rates
were measured on this project's machine (two cores), or are those of runs of the same model in the home.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import zstandard

from kgedit.analysis.runs import Run
from kgedit.errors import KgeditError, TimestepError
from kgedit.llm.presets import preset_by_name
from kgedit.machine import usable_cores
from kgedit.records.cases import AXES, Axis
from kgedit.runs.given_run import GivenPreset
from kgedit.runs.presets import DEFAULT_PRESETS
from kgedit.runs.run_files import read_spec
from kgedit.sample.generate import SNAPSHOT_DATES
from kgedit.store.engine import select
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.store.sources import DumpFile
from kgedit.verbs.run_edit import read_run
from kgedit.verbs.up_inputs import DatedState, RunFields, UpInputs
from kgedit.verbs.up_steps import Step, check_inputs, steps_of, with_state
from kgedit.wikidata.times import day_number

_HEAD = 4 << 20
"""Bytes of a dump's text to read."""

# docs/measurements/2026-11-28-loads.md, "Estimates"
_TEXT, _ROWS = 275e6, 315e3
"""Bytes of text and statements per second and core, with kgedit-native: a load takes the sum of both."""
_ROWS_IN_PYTHON = 70e3
"""Statements per second and core without kgedit-native, whose time hardly depends on the text."""
_UNPACKED = {".gz": 700e6, ".zst": 1900e6}
"""Bytes of text per second, on one core while others parse."""
_BZIP2 = 50e6
"""Bytes of text per second and core, on all cores."""
_STORED = 57
"""Bytes of a snapshot per statement; a load needs 88 more for temporary files, and 152 without kgedit-native."""
_TEXT_OF_STATEMENT = 933
"""Bytes of JSON: 1.4 TB for 1.5 billion statements."""

# docs/measurements/2026-11-25-performance.md: 4 M statements with locality and kinds
_GRAPH_SECONDS, _GRAPH_START = 50e-6, 15.0
"""Seconds per statement, and seconds until the server answers."""
_GRAPH_BYTES, _GRAPH_EMPTY = 842, 3.5e6
"""Bytes of a fact with evidence, and of an empty database."""
_EXPORT_SECONDS, _EXPORT_START = 6.5e-6, 6.0
_EXPORT_MEMORY, _EXPORT_MEMORY_START = 80, 270e6
"""Bytes per statement, and bytes without any."""
_CHANGED = 93_573 / 4e6
"""Changed pairs per statement of a generated dump with 2 % churn: a guess for any other."""

# Measured on the bundled sample with this command
_CASES_OF_CHANGED = 134 / 206
_PROBES_OF_CASE: Mapping[Axis, float] = {"update": 1, "rephrase": 1, "personas": 1, "locality": 0.78, "mhop": 0.07}
_CASE_BYTES, _ANSWER_BYTES = 1_700, 1_600
_START = 4.0
"""Seconds until torch is imported and a model loaded."""

_REPORT_SECONDS, _REPORT_START = 40e-6, 2.0
"""Seconds per answer on the page (docs/measurements/2026-11-25-performance.md, "Pages")."""

_ANSWERS = {"tiny": 45.0, "smollm2-135m": 13.9}
"""Questions per second: tiny on the sample; SmolLM2 the harmonic mean of synthetic and wild in
docs/measurements/2026-11-25-performance.md."""
_MODEL_MEMORY = {"tiny": 1.0e9, "smollm2-135m": 2.2e9}
_TRAINING = {"tiny": 20.0}
"""Seconds until tiny has learned the older state, once per timestep."""
_TRAINED_BYTES = {"tiny": 3.5e6}
_EDITING = {
    ("tiny", "locft_bf"): 0.6,
    ("tiny", "grace"): 0.45,
    ("tiny", "ft_m"): 0.05,
    ("smollm2-135m", "graph_rag"): 0.01,
}
"""Processor seconds per edit on the sample, for locft_bf with the default settings of `up`."""


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Estimate for one step.

    Attributes:
        name: Name of the step.
        is_done: Whether its result exists; then all other values are 0.
        seconds: Wall time; None if no rate is known.
        disk: Bytes of the result.
        memory: Peak memory in bytes; None if unknown.
        questions: Number of questions to the model.
        basis: Counts and rates behind the estimate.
    """

    name: str
    is_done: bool
    seconds: float | None
    disk: float
    memory: float | None
    questions: int
    basis: str


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of a call's inputs, counted or guessed.

    Attributes:
        statements: Number of statements in both states.
        cases: Number of edits.
        questions: Number of questions of each run in one model state.
        basis: Basis of the number of statements.
        cases_basis: Basis of the number of cases.
    """

    statements: dict[DatedState, float]
    cases: int
    questions: tuple[int, ...]
    basis: dict[DatedState, str]
    cases_basis: str


def estimate(inputs: UpInputs, *, track: str | None = None, overwrite: bool = False) -> list[StepEstimate]:
    """Estimate every step. Reads the first bytes of dumps, and changes nothing.

    Args:
        track: See `up`; used for the checks.
        overwrite: See `up`; used for the checks.

    Raises:
        KgeditError: any error that `up` raises before its first step, or if a dump cannot be read.
    """
    check_inputs(inputs, track=track, overwrite=overwrite)
    sizes = _measure(inputs)
    return [
        StepEstimate(step.name, True, 0.0, 0, 0, 0, "its result is there")
        if is_done
        else _estimate_step(inputs, step, sizes)
        for step, is_done in with_state(steps_of(inputs, overwrite=False, track=None))
    ]


def _estimate_step(inputs: UpInputs, step: Step, sizes: _Sizes) -> StepEstimate:
    statements = sum(sizes.statements.values())
    if step.kind == "sample":
        return StepEstimate(step.name, False, 1.0, 200e3, 100e6, 0, "always the same")
    if step.state is not None:
        return _loading(step, step.state, sizes)
    if step.kind == "graph":
        seconds = _GRAPH_START + _GRAPH_SECONDS * statements
        basis = f"{statements:,.0f} statements, 20,000 a second; its server takes 1 to 4 GiB of heap"
        disk = _GRAPH_EMPTY + _GRAPH_BYTES * max(sizes.statements.values())
        return StepEstimate(step.name, False, seconds, disk, 1.5e9, 0, basis)
    if step.kind == "export":
        seconds, memory = (
            _EXPORT_START + _EXPORT_SECONDS * statements,
            _EXPORT_MEMORY_START + _EXPORT_MEMORY * statements,
        )
        return StepEstimate(step.name, False, seconds, _CASE_BYTES * sizes.cases, memory, 0, sizes.cases_basis)
    if step.kind == "run":
        return _running(inputs, step, sizes)
    answers = 2 * sum(sizes.questions)
    seconds = _REPORT_START * (1 + len(inputs.runs)) + _REPORT_SECONDS * answers
    return StepEstimate(step.name, False, seconds, 3e5 + 80 * answers, 4e8, 0, f"{answers:,} answers")


def _loading(step: Step, state: DatedState, sizes: _Sizes) -> StepEstimate:
    statements, dump = sizes.statements[state], state.dump
    text = statements * _TEXT_OF_STATEMENT if dump is None or not dump.is_file() else _text_bytes(dump)
    suffix = dump.suffix if dump else ""
    work = text / _TEXT + statements / _ROWS if find_spec("kgedit_native") else statements / _ROWS_IN_PYTHON
    disk, basis = _STORED * statements, sizes.basis[state]
    if step.only_compares():
        work, disk, basis = 0.0, 0.0, f"{basis} from a file of this size, which is newer now: its hash is compared"
    work += text / _BZIP2 if suffix == ".bz2" else 0.0
    seconds = 1.0 + max(text / _UNPACKED.get(suffix, 1e12), work / usable_cores())
    return StepEstimate(step.name, False, seconds, disk, None, 0, basis)


def _running(inputs: UpInputs, step: Step, sizes: _Sizes) -> StepEstimate:
    model, method = str(step.run["model"]), str(step.run["method"])
    questions = 2 * sizes.questions[inputs.runs.index(step.run)]
    earlier, same = _newest_run(inputs.home, model), _newest_run(inputs.home, model, method)
    rate, rate_basis = _rate(earlier, model)
    each = same.seconds_per_edit if same else _EDITING.get((model, method))
    is_new = not earlier and step.run is next(run for run in inputs.runs if run["model"] == model)
    basis = f"{sizes.cases:,} edits at most, {questions:,} questions; {rate_basis}"
    where = f"in {same.folder.name}" if same else "measured on one core"
    basis += f"; {each:.2g} s an edit {where}" if each else f"; the time of {method} itself is not known"
    memory = same.scores.edits.peak_memory_bytes if same else _MODEL_MEMORY.get(model)
    seconds = None
    if rate:
        seconds = _START + questions / rate + (each or 0) * sizes.cases
        seconds += _TRAINING.get(model, 0) if is_new else 0
    disk = _ANSWER_BYTES * questions + (_TRAINED_BYTES.get(model, 0) if is_new else 0)
    return StepEstimate(step.name, False, seconds, disk, memory, questions, basis)


def _rate(earlier: Run | None, model: str) -> tuple[float | None, str]:
    """Questions per second, over all presets of the newest run."""
    asked = [speed for speed in earlier.scores.speed if speed.edited and speed.seconds] if earlier else []
    if earlier and asked:
        rate = sum(speed.questions for speed in asked) / sum(speed.seconds for speed in asked)
        return rate, f"{rate:.1f} a second in {earlier.folder.name}"
    if model in _ANSWERS:
        return _ANSWERS[model], f"{_ANSWERS[model]:.0f} a second, measured on one core"
    return None, f"no rate for {model} is known: a run of a few cases (--sample 10) gives one"


def _newest_run(home: Path, model: str, method: str | None = None) -> Run | None:
    """Newest finished run of the model in the home; None for `method` means any method."""
    newest = sorted((home / "runs").glob("*/scores.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in (path.parent for path in newest):
        try:
            spec = read_spec(folder)
            if spec.model == model and method in (None, spec.method):
                return read_run(folder)
        except KgeditError:
            continue
    return None


def _measure(inputs: UpInputs) -> _Sizes:
    loaded = {snapshot.date: snapshot for snapshot in list_snapshots(inputs.home)}
    statements, basis = {}, {}
    for state in inputs.states:
        statements[state], basis[state] = _statements(inputs, state, loaded.get(day_number(state.date)))
    cases, questions, cases_basis = _cases(inputs, loaded, statements[inputs.newer])
    return _Sizes(statements, cases, questions, basis, cases_basis)


def _statements(inputs: UpInputs, state: DatedState, loaded: Snapshot | None) -> tuple[float, str]:
    if loaded is not None:
        return float(loaded.manifest["claims"]), f"{loaded.manifest['claims']:,} statements, loaded"
    if inputs.is_sample and (state.dump is None or not state.dump.is_file()):
        return 1_800.0, f"the sample has some 1,800 statements on each of its {len(SNAPSHOT_DATES)} days"
    if state.dump is None:
        return 0.0, ""
    text = _text_bytes(state.dump)
    count = round(text / _text_of_statement(state.dump))
    basis = f"about {count:,} statements in {text / 1e6:,.1f} MB of text, by the first {_HEAD >> 20} MiB"
    return float(count), basis


def _text_bytes(dump: Path) -> float:
    """Size of a dump's text, from the compression ratio of its first bytes."""
    source = DumpFile(dump)
    head = source.head(_HEAD)
    if len(head) < _HEAD:
        return float(len(head))
    packers: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".zst": zstandard.ZstdCompressor().compress,
    }
    pack = packers.get(dump.suffix)
    return source.size * (len(head) / len(pack(head)) if pack else 1.0)


def _text_of_statement(dump: Path) -> float:
    head = DumpFile(dump).head(_HEAD)
    found = head.count(b'"mainsnak"')
    return len(head) / found if found else _TEXT_OF_STATEMENT


def _cases(inputs: UpInputs, loaded: dict[int, Snapshot], statements: float) -> tuple[int, tuple[int, ...], str]:
    """Number of edits, number of questions of each run in one model state, and the basis of both."""
    exact = _counted_cases(inputs)
    if exact is not None:
        return *exact, f"{exact[0]:,} cases, counted"
    old, new = (loaded.get(day_number(state.date)) for state in inputs.states)
    if inputs.is_sample:
        changed, basis = 206.0, "the sample's 206 changed pairs"
    elif old is not None and new is not None:
        changed = _count_changed(old, new)
        basis = f"{changed:,.0f} changed pairs, counted"
    else:
        changed = _CHANGED * statements
        basis = f"{_CHANGED:.1%} of the statements changed in generated dumps: a guess"
    cases = min(round(changed * _CASES_OF_CHANGED), *_limits(inputs))
    probes = sum(_PROBES_OF_CASE.values())
    basis += f"; {_CASES_OF_CHANGED:.0%} of them become cases and {probes:.1f} probes each, as in the sample"
    return cases, tuple(round(cases * _questions_of_case(run)) for run in inputs.runs), basis


def _questions_of_case(run: RunFields) -> float:
    """Mean number of questions about a case under all presets of a run."""
    axes = [axis for preset in run.get("presets") or DEFAULT_PRESETS for axis in _axes_of(preset)]
    return sum(_PROBES_OF_CASE.get(axis, 0) for axis in axes)


def _axes_of(preset: str | Mapping[str, Any]) -> tuple[Axis, ...]:
    found = preset_by_name(preset) if isinstance(preset, str) else GivenPreset(**preset)
    return (found.axes if found else ()) or AXES


def _limits(inputs: UpInputs) -> Iterator[int]:
    run = inputs.runs[0]  # all have the same cases
    yield from (int(run[name]) for name in ("sample", "limit") if run.get(name) is not None)
    yield 1 << 62


def _counted_cases(inputs: UpInputs) -> tuple[int, tuple[int, ...]] | None:
    """Number of edits, and number of questions of each run, if the timestep exists."""
    from kgedit.runs.spec import resolve
    from kgedit.runs.sweeps.execution import SweepCounter

    if not inputs.timestep.is_dir():
        return None
    counter = SweepCounter()
    try:
        counts = [counter.edits_and_questions(resolve(inputs.raw_spec(run))) for run in inputs.runs]
    except TimestepError:
        return None
    return counts[0][0], tuple(questions for _, questions in counts)


def _count_changed(old: Snapshot, new: Snapshot) -> float:
    """Number of pairs of subject and property whose current values differ between the states."""
    rows = select(
        "WITH older AS (SELECT subject, property, object FROM read_parquet($old)), "
        "newer AS (SELECT subject, property, object FROM read_parquet($new)), "
        "changed AS ((FROM older EXCEPT FROM newer) UNION (FROM newer EXCEPT FROM older)) "
        "SELECT count(DISTINCT (subject, property)) AS pairs FROM changed",
        {"old": str(old.facts), "new": str(new.facts)},
    )
    return float(rows["pairs"][0].as_py())
