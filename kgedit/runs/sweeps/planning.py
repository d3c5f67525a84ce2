"""Expands a sweep's spec into its runs, and reports all problems of all runs at once.

A run's name contains the method and every field that is a list in the run's grid, even with one value, so that a list
can grow without renaming existing runs. A single run is named after all its fields.
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kgedit.editing import METHODS, settings_type_of
from kgedit.editing.hparams.settings import explain, read_settings, unknown
from kgedit.errors import SpecError
from kgedit.llm.presets import PRESETS, preset_by_name
from kgedit.records.runs import RunSpec
from kgedit.runs.given_run import GivenPreset, GivenRun
from kgedit.runs.spec import problems_of, resolve, write_spec
from kgedit.runs.sweeps import (
    FieldName,
    KeyPath,
    LocatedProblem,
    LocatedYaml,
    PlacedValue,
    SweepEntry,
    SweepFile,
    take_apart,
)

Combination = Mapping[FieldName, PlacedValue]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        name: Name of its folder.
        spec: Resolved spec.
        former_name: Name that earlier versions gave it, without a hash; they cut the names of models at a dot.
    """

    name: str
    spec: RunSpec
    former_name: str = ""


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The runs of a sweep.

    Attributes:
        runs: Runs in the order of the spec.
        excluded: Number of combinations left out by `exclude`.
        repeated: Number of combinations that equal an earlier run, because they differ only in what their method
            ignores.
    """

    runs: tuple[PlannedRun, ...]
    excluded: int = 0
    repeated: int = 0


def plan_sweep(source: LocatedYaml, *, base: Mapping[str, Any] | None = None) -> SweepPlan:
    """Plan every run of a sweep's spec.

    Args:
        base: Fields of the run spec that override those of the spec's own base, such as options.

    Raises:
        SpecError: listing all problems with their lines.
    """
    parts, problems = take_apart(source)
    parts, refused = _with_base(parts, base or {})
    planner = _Planner(parts)
    problems += refused + planner.problems_of_presets()
    plan = planner.plan()
    problems += planner.problems()
    if not problems and not plan.runs:
        problems.append(source.located(("exclude",), "leaves no run"))
    if problems:
        raise SpecError([problem.text for problem in sorted(dict.fromkeys(problems))])
    return plan


def _with_base(parts: SweepFile, given: Mapping[str, Any]) -> tuple[SweepFile, list[LocatedProblem]]:
    """Add fields to the base; a field that a grid or a run sets is a problem."""
    fields = dict(parts.base.fields)
    problems = []
    for name, value in given.items():
        fields[(name,)] = (PlacedValue(value, ()),)
        there = next((entry.fields[(name,)] for entry in parts.entries if (name,) in entry.fields), None)
        if there:
            problems.append(parts.source.located(there[0].path, f"{name} is set here and cannot be overridden"))
    return replace(parts, base=SweepEntry(parts.base.path, fields)), problems


@dataclass(slots=True)
class _Planner:
    """Combines the parts of a spec, and records problems with the value that they concern.

    Attributes:
        found: Path, problem and whether it concerns a whole run -> names of the runs that have it.
    """

    parts: SweepFile
    bad_presets: set[str] = field(default_factory=set)
    found: dict[tuple[KeyPath, str, bool], list[str]] = field(default_factory=dict)
    used_exclusions: set[KeyPath] = field(default_factory=set)
    checked: dict[KeyPath, list[str]] = field(default_factory=dict)

    def problems_of_presets(self) -> list[LocatedProblem]:
        """Problems of the sweep's own presets, used or not."""
        located_problems = []
        for name, preset in self.parts.presets.items():
            for module, problem in problems_of_own_preset(name, preset.value):
                self.bad_presets.add(name)
                shortened = problem.removeprefix(f"{module}: ") if module else problem
                located_problems.append(
                    self.parts.source.located((*preset.path, module) if module else preset.path, shortened)
                )
        return located_problems

    def plan(self) -> SweepPlan:
        """Runs without a problem."""
        specs: dict[str, tuple[str, RunSpec, str]] = {}
        excluded = repeated = 0
        for entry, own in self._combinations():
            combination = {name: values[0] for name, values in self.parts.base.fields.items()} | own
            if self._is_excluded(combination):
                excluded += 1
                continue
            naming = {key: placed.value for key, placed in own.items() if key in entry.naming}
            name = run_name(_method_of(combination), naming)
            spec = self._resolve(combination, name, entry.path)
            if spec is not None:
                repeated += repr(spec) in specs
                former = run_name(_method_of(combination), naming, shortened=_formerly_shortened)
                specs.setdefault(repr(spec), (name, spec, former))
        names = unique_names([name for name, _, _ in specs.values()], [spec for _, spec, _ in specs.values()])
        runs = tuple(
            PlannedRun(name, spec, former) for name, (_, spec, former) in zip(names, specs.values(), strict=True)
        )
        return SweepPlan(runs, excluded, repeated)

    def problems(self) -> list[LocatedProblem]:
        """Problems found during planning, each once; those of a whole run with the names of the runs."""
        located = self.parts.source.located
        located_problems = []
        for (path, problem, of_run), names in self.found.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            located_problems.append(located(path, f"{names[0]}{more}: {problem}" if of_run else problem))
        unused = [entry.path for entry in self.parts.exclusions if entry.path not in self.used_exclusions]
        return located_problems + [located(path, "leaves out no run: none is like this") for path in unused]

    def _combinations(self) -> Iterator[tuple[SweepEntry, dict[FieldName, PlacedValue]]]:
        for entry in self.parts.entries:
            for own in entry.combinations():
                yield entry, own

    def _is_excluded(self, combination: Combination) -> bool:
        matching = [entry.path for entry in self.parts.exclusions if entry.fields and _matches(entry, combination)]
        self.used_exclusions.update(matching)
        return bool(matching)

    def _resolve(self, combination: Combination, name: str, path: KeyPath) -> RunSpec | None:
        """Resolved spec of the run, or None if there is a problem."""
        wrong = self._wrong_fields(combination, name)
        if ("method",) in wrong:
            return None
        try:
            spec = resolve(self._raw({key: placed for key, placed in combination.items() if key not in wrong}))
        except SpecError as error:
            for problem in error.problems:
                place = _place_of(problem, combination)
                text = problem.removeprefix(f"{place[-1]}: ") if place else problem
                self._keep(place or path, text, name, of_run=place is None)
            return None
        return None if wrong else spec

    def _wrong_fields(self, combination: Combination, name: str) -> set[FieldName]:
        """Fields and settings that are individually invalid."""
        wrong = set()
        method = combination[("method",)].value if ("method",) in combination else None
        for key, placed in combination.items():
            problems = self._problems_of(key, placed, method)
            for problem in problems:
                self._keep(placed.path, problem, name, of_run=False)
            if problems or (key == ("presets",) and self.bad_presets.intersection(map(str, placed.value or ()))):
                wrong.add(key)
        return wrong

    def _problems_of(self, key: FieldName, placed: PlacedValue, method: Any) -> list[str]:
        """Problems of one value, checked once per method."""
        checked = (*placed.path, str(method), *key)
        if checked not in self.checked:
            self.checked[checked] = problems_of_value(key, placed.value, method=method, own_presets=self.parts.presets)
        return self.checked[checked]

    def _raw(self, combination: Combination) -> dict[str, Any]:
        """Run spec with the sweep's own presets written out."""
        raw = {key[0]: placed.value for key, placed in combination.items() if len(key) == 1}
        settings = {key[1]: placed.value for key, placed in combination.items() if len(key) == 2}
        own = self.parts.presets
        if raw.get("presets") is not None:
            raw["presets"] = [
                {"name": one, **own[one].value} if isinstance(one, str) and one in own else one
                for one in raw["presets"]
            ]
        if isinstance(raw.get("timesteps"), list):
            raw["timesteps"] = _with_files_beside(self.parts.source, raw["timesteps"])
        return raw | ({"settings": settings} if settings else {})

    def _keep(self, path: KeyPath, problem: str, name: str, *, of_run: bool) -> None:
        names = self.found.setdefault((path, problem, of_run), [])
        if name not in names:
            names.append(name)


def _matches(entry: SweepEntry, combination: Combination) -> bool:
    return all(
        key in combination and combination[key].value in [placed.value for placed in values]
        for key, values in entry.fields.items()
    )


def _method_of(combination: Combination) -> str:
    placed = combination.get(("method",))
    return str(placed.value) if placed else "run"


def _place_of(problem: str, combination: Combination) -> KeyPath | None:
    """Position of the field at the start of a problem: "limit takes the first cases", "timesteps: there is"."""
    found = re.match(r"(?:the )?(\w+)", problem)
    word = found[1] if found else ""
    placed = combination.get((word,)) or combination.get((f"{word}s",))
    return placed.path if placed and placed.path else None


def _with_files_beside(source: LocatedYaml, given: Sequence[str]) -> list[str]:
    """Existing paths unchanged, others relative to the spec, as in the built-in specs."""
    folder = source.file.resolve().parent if source.file else Path()
    return [path if Path(path).exists() or not (folder / path).exists() else str(folder / path) for path in given]


_LONGEST = 120
"""Characters of a run's name: file systems allow 255 bytes, some encrypted ones 143."""

_DIGITS = 6
"""Hexadecimal digits of a spec's hash: 24 bits distinguish the runs of one sweep that would have the same name."""


_FILE_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet", ".yaml")
"""Left out of names; other dots may be part of the name of a model."""


def _shortened(text: str) -> str:
    name = Path(text).name if "/" in text else text
    return next((name.removesuffix(suffix) for suffix in _FILE_SUFFIXES if name.endswith(suffix)), name)


def _formerly_shortened(text: str) -> str:
    return Path(text).stem if "/" in text else text.removesuffix(".json")


def run_name(method: str, fields: Mapping[FieldName, Any], *, shortened: Callable[[str], str] = _shortened) -> str:
    """Name of one run.

    Args:
        method: Name of its method.
        fields: Fields that form the name, in the order of the file; the method among them is ignored.
        shortened: Shortens the texts of values.
    """
    parts = [f"{field[-1]}={_text(value, shortened)}" for field, value in fields.items() if field != ("method",)]
    return re.sub(r"[^\w.=+-]+", "_", "-".join([method, *parts]))


def unique_names(names: Sequence[str], specs: Sequence[RunSpec]) -> list[str]:
    """Make names unique and valid in a file system: duplicates and long names get a hash of the spec as suffix."""
    times = Counter(names)
    return [
        name if times[name] == 1 and len(name) <= _LONGEST else hashed_name(name, spec)
        for name, spec in zip(names, specs, strict=True)
    ]


def hashed_name(name: str, spec: RunSpec) -> str:
    """The name, shortened and with a hash of the spec."""
    return f"{name[:_LONGEST]}-{hashlib.sha256(write_spec(spec).encode()).hexdigest()[:_DIGITS]}"


def former_pattern(run: PlannedRun) -> str:
    """Pattern of the names with a hash that earlier versions may have given a run."""
    return f"{glob.escape(run.former_name[:_LONGEST])}-{'[0-9a-f]' * _DIGITS}"


def _text(value: Any, shortened: Callable[[str], str]) -> str:
    if isinstance(value, list | tuple):
        return "+".join(_text(one, shortened) for one in value)
    if isinstance(value, Mapping):
        return str(value.get("name", "own"))
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return shortened(str(value))


def problems_of_value(key: FieldName, value: Any, *, method: object, own_presets: Mapping[str, Any]) -> list[str]:
    """Errors in the value of a field or of a setting.

    Args:
        method: Method of the run; settings of an unknown one cannot be checked.
        own_presets: Presets defined by the sweep, by name.
    """
    if key == ("method",):
        if not isinstance(value, str):
            return [f"must be the name of a method, not {value!r}; a list of them belongs into the grid"]
        return [] if value in METHODS else [unknown("editing method", value, list(METHODS))]
    if key[0] == "settings":
        return _problems_of_setting(key[1], value, method)
    if key == ("presets",):
        return _problems_of_presets(value, own_presets)
    try:
        GivenRun.model_validate({key[0]: value})
    except ValidationError as error:
        return list(dict.fromkeys(explain(item) for item in error.errors()))
    return []


def problems_of_own_preset(name: str, given: Any) -> Iterator[tuple[str, str]]:
    """Errors in a preset defined by the sweep: the module, or "" for the whole preset, and the problem."""
    if preset_by_name(name) is not None:
        yield "", "kgedit has a preset of this name; give yours another"
    elif not isinstance(given, Mapping):
        yield "", f"must be a mapping of {', '.join(GivenPreset.model_fields)}, not {given!r}"
    else:
        for problem in problems_of({"method": "none", "presets": [{"name": name, **given}]}):
            shortened = problem.removeprefix(f"preset '{name}': ")
            yield next((module for module in given if shortened.startswith(f"{module}:")), ""), shortened


def _problems_of_setting(name: str, value: Any, method: object) -> list[str]:
    if not isinstance(method, str) or method not in METHODS:
        return []
    found = read_settings(settings_type_of(method), {name: value}, method=method)[1]
    return [problem.removeprefix(f"settings.{name}: ") for problem in found]


def _problems_of_presets(given: Any, own: Mapping[str, Any]) -> list[str]:
    """Unknown names; errors of a preset that is a mapping are reported by its run."""
    if given is None:
        return []
    if not isinstance(given, list):
        return [f"must be a list of names of presets, not {given!r}"]
    names = [str(one) for one in given if not isinstance(one, Mapping)]
    known = list(dict.fromkeys([*PRESETS, *own]))
    return [unknown("preset", one, known) for one in names if one not in own and preset_by_name(one) is None]
