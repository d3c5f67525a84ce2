"""Reads YAML catalogues of prompts; a repeated key is an error and never lost silently."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from kgedit.errors import TimestepError

try:
    from yaml import CSafeLoader as _Safe  # several times as fast, but missing in PyYAML without libyaml
except ImportError:
    from yaml import SafeLoader as _Safe  # type: ignore[assignment]


class _Loader(_Safe):
    """Safe loader, in C if available, that refuses a mapping with a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"written twice: {', '.join(twice)}", node.start_mark)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def read_catalogue(path: Path) -> dict[str, Any]:
    """Read the mapping of a catalogue file.

    Raises:
        TimestepError: if the file is missing, is not valid YAML, or does not contain a mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise TimestepError(
            f"The catalogue {path} cannot be read: {error.strerror}. Name a YAML file like those under prompts/."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TimestepError(f"The catalogue {path} is not valid YAML in UTF-8. Mend it:\n{error}") from error
    if not isinstance(content, dict):
        raise TimestepError(
            f"The catalogue {path} contains no mapping. Give it keys, as the files under prompts/ have."
        )
    return content


def refuse(path: Path, problems: list[str]) -> None:
    """Report all problems of a catalogue at once.

    Raises:
        TimestepError: if there is any problem.
    """
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise TimestepError(f"The catalogue {path} breaks its contract; mend these entries:\n{listed}")


def content_hash(paths: list[Path]) -> str:
    """First 16 hex digits of a SHA-256 over names and contents, independent of the order of the paths."""
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
