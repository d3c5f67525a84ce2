"""Readable names of a sweep's runs: "rag-k=10-seed=0".

A name contains the method and every field that is a list in the run's grid, even with one value, so that a list can
grow without renaming existing runs. A single run is named after all its fields.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kgedit.records.runs import RunSpec
from kgedit.runs.spec import write_spec
from kgedit.runs.sweeps.sweep_file import FieldName

_LONGEST = 120
_DIGITS = 6


def run_name(method: str, fields: Mapping[FieldName, Any]) -> str:
    """Name of one run.

    Args:
        method: Name of its method.
        fields: Fields that form the name, in the order of the file; the method among them is ignored.
    """
    parts = [f"{field[-1]}={_text(value)}" for field, value in fields.items() if field != ("method",)]
    return re.sub(r"[^\w.=+-]+", "_", "-".join([method, *parts]))


def unique_names(names: Sequence[str], specs: Sequence[RunSpec]) -> list[str]:
    """Make names unique and valid in a file system: duplicates and long names get a hash of the spec as suffix."""
    times = Counter(names)
    return [
        name if times[name] == 1 and len(name) <= _LONGEST else f"{name[:_LONGEST]}-{_digest(spec)}"
        for name, spec in zip(names, specs, strict=True)
    ]


def _digest(spec: RunSpec) -> str:
    return hashlib.sha256(write_spec(spec).encode()).hexdigest()[:_DIGITS]


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "+".join(map(_text, value))
    if isinstance(value, Mapping):
        return str(value.get("name", "own"))
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    text = str(value)
    return Path(text).stem if "/" in text else text.removesuffix(".json")
