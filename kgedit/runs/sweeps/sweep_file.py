"""The parts of a sweep's spec: `presets`, `base`, `grid`, `runs` and `exclude`, checked for their shape.

Every field is one of the run spec or a setting of the method: a sweep names nothing anew. In `grid` and `exclude` a
list holds alternatives; for a field that is a list itself (timesteps, presets) each is one name or one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from kgedit.hparams.settings import unknown
from kgedit.runs.given_run import GivenRun
from kgedit.runs.sweeps.located_yaml import KeyPath, LocatedProblem, LocatedYaml

SECTIONS = ("presets", "base", "grid", "runs", "exclude")

FieldName = tuple[str, ...]
"""("seed",), or ("settings", "k") for a hyperparameter."""

_LISTS = ("timesteps", "presets")


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value and where it stands."""

    value: Any
    path: KeyPath


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """One mapping of fields: the base, a grid, a run, or an exclusion.

    Attributes:
        path: Where it stands.
        fields: Each field with its alternatives; one each in the base and in a run.
        naming: Fields that runs are named after: those of a grid that are lists, and all of a run.
    """

    path: KeyPath
    fields: Mapping[FieldName, tuple[PlacedValue, ...]]
    naming: frozenset[FieldName] = frozenset()

    def combinations(self) -> Iterator[dict[FieldName, PlacedValue]]:
        """Every choice of one alternative for each field, the last field fastest."""
        for chosen in product(*self.fields.values()):
            yield dict(zip(self.fields, chosen, strict=True))


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep's spec, taken apart.

    Attributes:
        source: With the positions.
        presets: The sweep's own presets by name, each a mapping of the modules that it chooses.
        base: Fields of every run; a grid's and a run's own go before them.
        entries: Grids, then runs.
        exclusions: What is left out.
    """

    source: LocatedYaml
    presets: Mapping[str, PlacedValue]
    base: SweepEntry
    entries: tuple[SweepEntry, ...]
    exclusions: tuple[SweepEntry, ...]


def take_apart(source: LocatedYaml) -> tuple[SweepFile, list[LocatedProblem]]:
    """The parts of a spec, those of the wrong shape left out, and every problem of shape."""
    reader = _Reader(source)
    base = reader.entry(("base",), alternatives=False) if source.content.get("base") else SweepEntry(("base",), {})
    grids = source.content.get("grid")
    paths: list[KeyPath] = [("grid", index) for index in range(len(grids))] if isinstance(grids, list) else [("grid",)]
    entries = [reader.entry(path, alternatives=True) for path in paths] if grids else []
    entries += [reader.entry(path, alternatives=False) for path in reader.items("runs")]
    excluded = [reader.entry(path, alternatives=True) for path in reader.items("exclude")]
    own = SweepFile(source, reader.presets(), base, tuple(entries), tuple(excluded))
    return own, [*reader.of_sections(), *reader.problems]


class _Reader:
    """Reads entries and gathers what is wrong with them."""

    def __init__(self, source: LocatedYaml) -> None:
        self._source = source
        self.problems = [source.located(path, "stands twice; the first is not read") for path in source.repeated]

    def of_sections(self) -> list[LocatedProblem]:
        """Problems of the top level."""
        content, located = self._source.content, self._source.located
        found = []
        for name in content:
            if name in SECTIONS:
                continue
            if name in GivenRun.model_fields:
                found.append(located((name,), f"a field of runs: put it under base, as 'base: {{{name}: ...}}'"))
            else:
                found.append(located((name,), unknown("part of a sweep", name, list(SECTIONS))))
        if not content.get("grid") and not content.get("runs"):
            found.append(located((), "there is neither a grid nor a list of runs, so there is nothing to run"))
        return found

    def items(self, section: str) -> list[KeyPath]:
        """Where the mappings of a list stand."""
        given = self._source.content.get(section)
        if given is None:
            return []
        if not isinstance(given, list):
            self._wrong((section,), f"must be a list of mappings, each with '- ' ahead, not {given!r}")
            return []
        return [(section, index) for index in range(len(given))]

    def presets(self) -> dict[str, PlacedValue]:
        """The section of the sweep's own presets."""
        given = self._source.content.get("presets") or {}
        if not isinstance(given, Mapping):
            self._wrong(("presets",), "must be a mapping of names to {context, generation, truncation, metric}")
            return {}
        return {str(name): PlacedValue(value, ("presets", str(name))) for name, value in given.items()}

    def entry(self, path: KeyPath, *, alternatives: bool) -> SweepEntry:
        """The mapping of fields at a place.

        Args:
            alternatives: Whether a list holds alternatives.
        """
        given: Any = self._source.content
        for key in path:
            given = given[key]
        if not isinstance(given, Mapping):
            self._wrong(path, f"must be a mapping such as 'method: ft_m', not {given!r}")
            return SweepEntry(path, {})
        fields: dict[FieldName, tuple[PlacedValue, ...]] = {}
        for name, value in given.items():
            inner = (*path, str(name))
            if name not in GivenRun.model_fields:
                self._wrong(inner, unknown("field", name, list(GivenRun.model_fields)))
            elif name == "settings":
                fields |= self._settings(value, inner, alternatives=alternatives)
            else:
                fields[(name,)] = _values(value, inner, is_list=name in _LISTS, alternatives=alternatives)
        for name, values in list(fields.items()):
            if not values:
                self._wrong((*path, *name), "an empty list of alternatives leaves no run")
                del fields[name]
        naming = [name for name, values in fields.items() if not alternatives or isinstance(values[0].path[-1], int)]
        return SweepEntry(path, fields, frozenset(naming))

    def _settings(self, given: Any, path: KeyPath, *, alternatives: bool) -> dict[FieldName, tuple[PlacedValue, ...]]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            self._wrong(path, f"must be a mapping of hyperparameters such as {{k: 10}}, not {given!r}")
            return {}
        return {
            ("settings", str(name)): _values(value, (*path, str(name)), is_list=False, alternatives=alternatives)
            for name, value in given.items()
        }

    def _wrong(self, path: KeyPath, problem: str) -> None:
        self.problems.append(self._source.located(path, problem))


def _values(given: Any, path: KeyPath, *, is_list: bool, alternatives: bool) -> tuple[PlacedValue, ...]:
    """The alternatives of a field."""
    if not (alternatives and isinstance(given, list)):
        return (PlacedValue(_as_list(given) if is_list else given, path),)
    return tuple(
        PlacedValue(_as_list(value) if is_list else value, (*path, index)) for index, value in enumerate(given)
    )


def _as_list(given: Any) -> Any:
    """A single name stands for a list of it."""
    return [given] if isinstance(given, str | Mapping) else given
