"""YAML with line numbers, so that problems name their line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kgedit.errors import SpecError
from kgedit.hparams.published import why_unreadable

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
        repeated: Keys that occur twice in one mapping.
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
        content = yaml.safe_load(text)
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
        seen = set()
        for key, value in node.value:
            inner = (*path, str(key.value))
            if inner in seen:
                repeated.append(inner)
            seen.add(inner)
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
