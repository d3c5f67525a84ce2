"""Sweeps: one YAML file that describes many runs, with its parts `presets`, `base`, `grid`, `runs` and `exclude`.

`planning` expands it into runs, which `execution` carries out one after another.

Every field is one of the run spec or a setting of the method; a sweep defines no names. In `grid` and `exclude` a list
contains alternatives; for a field that is itself a list (timesteps, presets) each is one name or one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kgedit.editing.hparams.settings import unknown, why_unreadable
from kgedit.errors import SpecError, did_you_mean
from kgedit.runs.given_run import GivenRun
from kgedit.yaml_files import load_yaml

KeyPath = tuple[str | int, ...]
"""Keys and indexes on the path to a value: ("grid", 0, "settings", "k", 2)."""


class LocatedProblem(NamedTuple):
    """A problem; sorts by line.

    Attributes:
        line: Line from 1; 0 if it concerns the whole file, or there is no file.
        text: Message with file and line.
    """

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class LocatedYaml:
    """A YAML mapping with positions of its values.

    Attributes:
        content: Result of yaml.safe_load.
        file: Its file; None for a mapping given from Python.
        lines: Line of each value, from 1; for a value with a key, the line of the key.
        repeated: Keys that occur twice in one mapping, with different values.
    """

    content: Mapping[str, Any]
    file: Path | None = None
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    repeated: tuple[KeyPath, ...] = ()

    def located(self, path: KeyPath, problem: str) -> LocatedProblem:
        """A problem with its position: "study.yaml:12: grid.settings.k: must be at least 1"."""
        located_text = f"{_dotted(path)}: {problem}" if path else problem
        line = self._line(path)
        ahead = "" if self.file is None else f"{self.file}{f':{line}' if line else ''}: "
        return LocatedProblem(line, ahead + located_text)

    def problems_of_keys(self) -> list[LocatedProblem]:
        """Problems of keys that occur twice."""
        return [self.located(path, "is given twice; the first is ignored") for path in self.repeated]

    def _line(self, path: KeyPath) -> int:
        """Line of a value, or of the nearest enclosing one that has a line."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 0)


def read_located(path: Path) -> LocatedYaml:
    """Read a file whose top level is a mapping.

    Raises:
        SpecError: if it cannot be read, or is not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = load_yaml(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError([why_unreadable(path, error)]) from error
    if not isinstance(content, dict) or root is None:
        raise SpecError([f"{path} must be a mapping with base, grid or runs, not {type(content).__name__}"])
    lines: dict[KeyPath, int] = {}
    repeated: list[KeyPath] = []
    _walk(root, (), lines, repeated)
    return LocatedYaml(content, path, lines, tuple(repeated))


def _walk(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], repeated: list[KeyPath]) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: dict[KeyPath, str] = {}
        for key, value in node.value:
            inner = (*path, str(key.value))
            text = yaml.serialize(value)
            if seen.setdefault(inner, text) != text:
                repeated.append(inner)
            lines[inner] = key.start_mark.line + 1
            _walk(value, inner, lines, repeated)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            inner = (*path, index)
            lines[inner] = item.start_mark.line + 1
            _walk(item, inner, lines, repeated)


def _dotted(path: KeyPath) -> str:
    """Keys joined by dots, with indexes in brackets, from 1."""
    text = ""
    for key in path:
        text += f"[{key + 1}]" if isinstance(key, int) else f"{'.' if text else ''}{key}"
    return text


_FOLDER = Path(__file__).parent / "specs"


@dataclass(frozen=True, slots=True)
class ShippedSweep:
    """A built-in spec.

    Attributes:
        name: Name of the file, without its suffix.
        about: First line of the file: its purpose.
        command: Second line: the command that runs it.
        path: Path of the file.
    """

    name: str
    about: str
    command: str
    path: Path


def shipped_sweeps() -> Sequence[ShippedSweep]:
    """All built-in specs, by name."""
    return [_read(path) for path in sorted(_FOLDER.glob("*.yaml"))]


def find_sweep(name: str | Path) -> Path:
    """Path of a user's file, or of the built-in spec of that name.

    Raises:
        SpecError: if neither exists.
    """
    path = Path(name)
    if path.is_file():
        return path
    known = {sweep.name: sweep.path for sweep in shipped_sweeps()}
    if str(name) in known:
        return known[str(name)]
    hint = did_you_mean(str(name), known)
    raise SpecError([f"there is no file {name}, nor a sweep of that name.{hint} Known: {', '.join(known)}"])


def _read(path: Path) -> ShippedSweep:
    about, command, *_ = (line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines())
    return ShippedSweep(path.stem, about, command, path)


SECTIONS = ("presets", "base", "grid", "runs", "exclude")

FieldName = tuple[str, ...]
"""("seed",), or ("settings", "k") for a hyperparameter."""

_LISTS = ("timesteps", "presets")


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value and its position."""

    value: Any
    path: KeyPath


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """One mapping of fields: the base, a grid, a run, or an exclusion.

    Attributes:
        path: Position of the mapping.
        fields: Each field with its alternatives; exactly one in the base and in a run.
        naming: Fields that form the names of runs: those of a grid that are lists, and all of a run.
    """

    path: KeyPath
    fields: Mapping[FieldName, tuple[PlacedValue, ...]]
    naming: frozenset[FieldName] = frozenset()

    def combinations(self) -> Iterator[dict[FieldName, PlacedValue]]:
        """Every combination of one alternative per field; the last field varies fastest."""
        for chosen in product(*self.fields.values()):
            yield dict(zip(self.fields, chosen, strict=True))


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep's spec, split into its parts.

    Attributes:
        source: YAML with positions.
        presets: Presets defined by the sweep, by name, each a mapping of modules.
        base: Fields of every run; overridden by those of a grid or run.
        entries: Grids, then runs.
        exclusions: Combinations to leave out.
    """

    source: LocatedYaml
    presets: Mapping[str, PlacedValue]
    base: SweepEntry
    entries: tuple[SweepEntry, ...]
    exclusions: tuple[SweepEntry, ...]


def take_apart(source: LocatedYaml) -> tuple[SweepFile, list[LocatedProblem]]:
    """Split a spec into its parts, without invalid ones, and list all structural problems."""
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
    """Reads entries and collects problems."""

    def __init__(self, source: LocatedYaml) -> None:
        self._source = source
        self.problems = source.problems_of_keys()

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
        """Positions of the mappings in a list."""
        given = self._source.content.get(section)
        if given is None:
            return []
        if not isinstance(given, list):
            self._wrong((section,), f"must be a list of mappings, each after '- ', not {given!r}")
            return []
        return [(section, index) for index in range(len(given))]

    def presets(self) -> dict[str, PlacedValue]:
        """Presets defined by the sweep."""
        given = self._source.content.get("presets") or {}
        if not isinstance(given, Mapping):
            self._wrong(("presets",), "must be a mapping of names to {context, generation, truncation, metric}")
            return {}
        return {str(name): PlacedValue(value, ("presets", str(name))) for name, value in given.items()}

    def entry(self, path: KeyPath, *, alternatives: bool) -> SweepEntry:
        """Mapping of fields at a position.

        Args:
            alternatives: Whether a list contains alternatives.
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
    """Alternatives of a field."""
    if not (alternatives and isinstance(given, list)):
        return (PlacedValue(_as_list(given) if is_list else given, path),)
    return tuple(
        PlacedValue(_as_list(value) if is_list else value, (*path, index)) for index, value in enumerate(given)
    )


def _as_list(given: Any) -> Any:
    """A single name is treated as a list of one."""
    return [given] if isinstance(given, str | Mapping) else given
