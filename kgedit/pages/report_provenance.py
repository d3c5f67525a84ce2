"""Provenance of a report's numbers, and the commands that reproduce them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgedit.analysis.overviews import kinds_of
from kgedit.analysis.runs import Run
from kgedit.errors import TimestepError
from kgedit.pages.report_views import run_names
from kgedit.records.runs import RunEnvironment
from kgedit.runs.run_files import read_environment

_HASH = 16  # shown digits of a SHA-256: 64 bits distinguish any two files


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance of the numbers of one group.

    Attributes:
        title: The group.
        facts: Names and descriptions.
    """

    title: str
    facts: tuple[tuple[str, str], ...]


def provenance_of(title: str, runs: Sequence[Run]) -> Provenance:
    """Provenance of the runs of a group; differing entries are listed run by run."""
    known = [_environment(run) for run in runs]
    facts = [
        ("Cases", f"{_cases(runs[0])} (sha256 {runs[0].scores.cases_sha256[:_HASH]}…)"),
        ("Kinds of change", _alike(kinds_of(run) for run in runs)),
        (
            "Timesteps",
            _alike(
                "; ".join(f"{one.name} sha256 {one.sha256[:_HASH]}…" for one in env.timesteps) for env in known if env
            ),
        ),
        ("Model", _alike(_model(env) for env in known if env)),
        ("Presets", "; ".join(_presets(runs))),
        (
            "Contexts",
            _alike("; ".join(f"{n} {sha[:_HASH]}…" for n, sha in sorted(env.contexts.items())) for env in known if env),
        ),
        ("Intervals", f"95 %: {runs[0].scores.intervals}"),
        ("Seeds", _alike(str(run.spec.seed) for run in runs)),
        ("Made with", _alike(_packages(env) for env in known if env)),
        ("On", _alike(f"{env.device}, {env.threads} threads, {env.platform}" for env in known if env)),
    ]
    facts += [(name, _run(run, env)) for name, run, env in zip(run_names(runs), runs, known, strict=True)]
    return Provenance(title, tuple((name, said) for name, said in facts if said))


def commands_of(runs: Sequence[Run]) -> str:
    """Commands that reproduce the runs, each from its own spec, and then this page."""
    folders = [str(run.folder) for run in runs]
    again = [
        f"kgedit run-edit {shlex.quote(f'{folder}/spec.yaml')} --out {shlex.quote(f'again/{run.folder.name}')}"
        for folder, run in zip(folders, runs, strict=True)
    ]
    return "\n".join([*again, f"kgedit report {shlex.join(folders)} --html report.html"])


def _environment(run: Run) -> RunEnvironment | None:
    try:
        return read_environment(run.folder)
    except TimestepError:
        return None  # unreadable in earlier versions: the page shows less, with the same numbers


def _alike(said: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(said))


def _cases(run: Run) -> str:
    return f"{run.cases.num_rows:,} edited" if run.cases.num_rows else "not listed in the run folder"


def _model(env: RunEnvironment) -> str:
    model = env.model
    revision = f", revision {model.revision}" if model.revision else ""
    return f"{model.name} ({model.class_name}, {model.parameters:,} parameters{revision}, weights {model.fingerprint})"


def _presets(runs: Sequence[Run]) -> list[str]:
    presets = {preset.name: preset for run in runs for preset in run.spec.presets}
    return [
        f"{one.name}: {one.context}, {one.generation}, {one.truncation}, judged by {one.metric}"
        + (f", {one.shots} shots" if one.shots else "")
        + (f", ends above {one.stop_entropy:g} nats" if one.stop_entropy is not None else "")
        + (f", after at most {one.thinking_tokens:,} tokens of reasoning" if one.thinking_tokens else "")
        for one in presets.values()
    ]


def _packages(env: RunEnvironment) -> str:
    said = [f"{name} {version}" for name, version in env.packages.items() if version]
    commit = [f"commit {env.git_commit[:12]}"] if env.git_commit else []
    return ", ".join([*said, f"Python {env.python}", *commit])


def _run(run: Run, env: RunEnvironment | None) -> str:
    settings = dict(env.settings) if env else dict(run.spec.settings)
    shown = ", ".join(f"{name} {value}" for name, value in sorted(settings.items()) if value is not None)
    trained = f", trained in {run.spec.train_context}" if run.spec.train_context else ""
    edits = run.scores.edits
    failed = f", {edits.failed:,} failed" if edits.failed else ""
    source = f". {env.source}" if env else ""
    shown = f"; {shown}" if shown else ""
    return f"{run.folder.name}: {run.spec.protocol}, {edits.edits:,} edits{failed}{trained}{shown}{source}"
