"""YAML with line numbers, so that a problem names the line that it is on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kgedit.errors import SpecError
from kgedit.hparams.yaml_errors import why_unreadable

KeyPath = tuple[str | int, ...]
"""Keys and indexes that lead to a value: ("grid", 0, "settings", "k", 2)."""


class LocatedProblem(NamedTuple):
    """A problem, sorted by its line.

    Attributes:
        line: From 1; 0 where it is about the whole file, or there is no file.
        text: With file and line.
    """

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class LocatedYaml:
    """A YAML mapping and where its values stand.

    Attributes:
        content: As yaml.safe_load gives it.
        file: Its file; None for a mapping that was given from Python.
        lines: Line of each value, from 1; of a value with a key that of the key.
        repeated: Keys that stand twice in one mapping.
    """

    content: Mapping[str, Any]
    file: Path | None = None
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    repeated: tuple[KeyPath, ...] = ()

    def located(self, path: KeyPath, problem: str) -> LocatedProblem:
        """A problem with its position: "study.yaml:12: grid.settings.k: must be at least 1"."""
        said = f"{_dotted(path)}: {problem}" if path else problem
        line = self._line(path)
        ahead = "" if self.file is None else f"{self.file}{f':{line}' if line else ''}: "
        return LocatedProblem(line, ahead + said)

    def _line(self, path: KeyPath) -> int:
        """The line of a value, or of the nearest one around it that has one."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 0)


def read_located(path: Path) -> LocatedYaml:
    """A file whose top level is a mapping.

    Raises:
        SpecError: if it cannot be read, or is no mapping.
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
    """Keys with dots between, indexes in brackets, from 1 as people count."""
    text = ""
    for key in path:
        text += f"[{key + 1}]" if isinstance(key, int) else f"{'.' if text else ''}{key}"
    return text
