"""Forms of Wikidata's ids and names. Other forms would break exports and queries much later.

Numbers have at most 18 digits, so that they fit in 64 bits.
"""

from __future__ import annotations

import re
from functools import lru_cache

LEAST_UNUSABLE_NUMBER = 10**18
_NUMBER = "[1-9][0-9]{0,17}"
_OF_TYPE = {"item": re.compile(f"Q{_NUMBER}"), "property": re.compile(f"P{_NUMBER}")}
_ENTITY = re.compile(f"[QPME]{_NUMBER}|L{_NUMBER}(?:-[FS]{_NUMBER})?").fullmatch
_LONGEST = 200


def is_id_of(entity_type: str, text: str) -> bool:
    """Whether a text is the id of an "item" or "property".

    >>> is_id_of("item", "Q42"), is_id_of("item", "P31"), is_id_of("item", "Q042")
    (True, False, False)
    """
    return _OF_TYPE[entity_type].fullmatch(text) is not None


def is_entity_id(text: str) -> bool:
    """Whether a text is the id of anything that a statement can refer to.

    >>> [is_entity_id(text) for text in ("Q42", "P31", "L7-F1", "L7-S1", "M5", "E10", "Q1 ", "Q1-F1")]
    [True, True, True, True, True, True, False, False]
    """
    return _ENTITY(text) is not None


@lru_cache(maxsize=65536)
def is_property_id(text: str) -> bool:
    """Whether a text is a property id."""
    return is_id_of("property", text)


def is_statement_id(text: str) -> bool:
    """Whether a text can be a statement id: printable, without white space, shorter than 200 characters.

    >>> is_statement_id("Q42$F078E5B3-F9A8-480E-B7AC-D97778CBBEF9"), is_statement_id("Q42 1"), is_statement_id("")
    (True, False, False)
    """
    return 0 < len(text) < _LONGEST and text.isprintable() and " " not in text


@lru_cache(maxsize=65536)
def is_name(text: str) -> bool:
    """Whether a text can be a unit, language, calendar or datatype: like a statement id, and without semicolons.

    >>> is_name("zh-hans"), is_name("Q1;2")
    (True, False)
    """
    return is_statement_id(text) and ";" not in text
