"""Checks parameters for values that Bolt cannot send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgedit.errors import GraphError

_LARGEST = 2**63 - 1


def refuse_what_bolt_cannot_carry(cypher: str, parameters: Mapping[str, Any]) -> None:
    """Refuse integers of more than 64 bits, and text that is not valid Unicode, at any depth.

    Raises:
        GraphError: with the parameter's name.
    """
    if not _is_unicode(cypher):
        raise GraphError("The query is not valid UTF-8 text. Save it, or set the terminal, as UTF-8.")
    for name, given in parameters.items():
        waiting = [given]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Mapping):
                waiting.extend([*value.keys(), *value.values()])
            elif isinstance(value, (list, tuple)):
                waiting.extend(value)
            elif isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
                raise GraphError(
                    f"Parameter {name}: {_short(value)} does not fit 64 bits. Give a number between -2^63 and 2^63-1."
                )
            elif isinstance(value, str) and not _is_unicode(value):
                raise GraphError(f"Parameter {name} holds text that is not valid Unicode: {value!a:.60}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: int) -> str:
    # Python refuses to format integers of more than a few thousand digits.
    return str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"
