"""YAML read in C where PyYAML has it, with the messages of PyYAML's Python parser."""

from __future__ import annotations

from typing import Any

import yaml

try:
    from yaml import CSafeLoader as SafeLoader  # ten times as fast, but missing in PyYAML without libyaml
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

__all__ = ["SafeLoader", "load_yaml"]


def load_yaml(text: str) -> Any:
    """Result of yaml.safe_load.

    Raises:
        yaml.YAMLError: if the text is not valid YAML.
    """
    try:
        return yaml.load(text, Loader=SafeLoader)
    except yaml.YAMLError:
        return yaml.safe_load(text)  # its message quotes the line at fault
