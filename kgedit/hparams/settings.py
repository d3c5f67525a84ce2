"""Hyperparameters: a frozen dataclass per method, read from YAML or flags with every problem reported at once.

YAML reads 5e-4 as a string, so numbers are parsed here whatever form they come in.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from kgedit.errors import SpecError
from kgedit.records.runs import Setting

ASKED = "asked"
CONTEXT_MEANING = 'context that edits are trained in; "asked": each context that the run\'s presets ask in'

Kind = TypeVar("Kind")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "yes": True, "no": False, "none": None, "null": None}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What values a setting takes, both ends included; ``above`` excludes its end."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf

    def refuses(self, value: float) -> str:
        """The reason against a number, or ""."""
        if not math.isfinite(value):
            return "must be finite"
        if value <= self.above:
            return f"must be greater than {self.above:g}"
        if value < self.least:
            return f"must be at least {self.least:g}"
        return f"must be at most {self.most:g}" if value > self.most else ""


def setting(
    default: Any,
    meaning: str,
    *,
    bounds: Bounds | None = None,
    choices: tuple[str, ...] = (),
    instead_of: str = "",
    read_by: Callable[[str], object] | None = None,
) -> Any:
    """A field of a settings dataclass with what it means and takes.

    Args:
        instead_of: A setting that this one is another way of choosing: who gives this one does not want what is
            published for that one.
        read_by: What reads a text later, with a SpecError where it makes no sense.
    """
    metadata = {"meaning": meaning, "bounds": bounds or Bounds(), "choices": choices}
    return field(default=default, metadata={**metadata, "instead_of": instead_of, "read_by": read_by})


def read_settings(kind: type[Kind], raw: Mapping[str, object], *, method: str) -> tuple[Kind | None, list[str]]:
    """Settings from raw values.

    Returns:
        The settings and no problems, or None and every problem.
    """
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    values: dict[str, Setting] = {}
    problems: list[str] = []
    for name, given in raw.items():
        if name not in known:
            problems.append(unknown(f"setting of {method}", name, list(known)))
            continue
        try:
            value = read_value(given, hints[name])
        except ValueError as error:
            problems.append(f"settings.{name}: {error}")
            continue
        problem = _refused(value, known[name].metadata)
        if problem:
            problems.append(f"settings.{name}: {problem}, not {value!r}")
        problems += _unreadable(value, known[name].metadata["read_by"])
        values[name] = value
    return (None if problems else kind(**values)), problems


def _refused(value: Setting, metadata: Mapping[str, Any]) -> str:
    if metadata["choices"] and value not in metadata["choices"]:
        return f"must be one of {', '.join(metadata['choices'])}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(metadata["bounds"].refuses(value))
    return ""


def _unreadable(value: Setting, read_by: Callable[[str], object] | None) -> tuple[str, ...]:
    if read_by is None or not isinstance(value, str):
        return ()
    try:
        read_by(value)
    except SpecError as error:
        return error.problems
    return ()


def read_value(given: object, wanted: Any) -> Setting:
    """One value as the type wanted: int, float, bool, str, or a union of one of them with None.

    Raises:
        ValueError: saying what was expected.
    """
    options = get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)
    word = _WORDS.get(given.strip().lower(), given) if isinstance(given, str) and str not in options else given
    if word is None and type(None) in options:
        return None
    for option in (int, float, bool, str):
        if option in options:
            return _as(option, word, given)
    raise TypeError(f"no setting can be of type {wanted}")


def _as(option: type, word: object, given: object) -> Setting:
    if option is bool and isinstance(word, bool):
        return word
    if option is str and isinstance(word, str):
        return word
    if option in (int, float) and isinstance(word, (int, float, str)) and not isinstance(word, bool):
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if option is float and not math.isnan(number):
            return number
        if option is int and number.is_integer():
            return int(number)
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    raise ValueError(f"expected {names[option]}, not {given!r}")


def unknown(kind: str, name: object, known: list[str]) -> str:
    """The message for a name that is not known, with the nearest one."""
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f" did you mean '{near[0]}'?" if near else ""
    return f"there is no {kind} '{name}';{hint} known: {', '.join(sorted(known)) or 'none'}"
