"""Explains in one line why a YAML file cannot be read."""

from __future__ import annotations

from pathlib import Path

import yaml


def why_unreadable(path: Path, error: OSError | UnicodeDecodeError | yaml.YAMLError) -> str:
    """Reason without error numbers, and the line where the YAML is invalid."""
    if isinstance(error, FileNotFoundError):
        return f"there is no file {path}"
    if isinstance(error, OSError):
        return f"{path} cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"{path} is not UTF-8 text"
    mark = getattr(error, "problem_mark", None)
    where = f"{path}, line {mark.line + 1}" if mark else str(path)
    return f"{where}: the YAML is broken: {getattr(error, 'problem', None) or str(error).partition(chr(10))[0]}"
