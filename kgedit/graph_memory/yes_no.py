"""Yes/no questions that end with the value: "Is the capital of Germany Bonn?" is read as "Is Bonn the capital …?".

Else the value looks like the end of the name: "Germany Bonn".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kgedit.wording.name_index import Mention

_CAPITAL = r"[A-ZÀ-Þ][\w.'’-]*"
_ASKED = re.compile(
    rf"(?P<verb>(?i:(?:is|was|are|were)(?:n['’]t)?)) (?P<what>the (?:[\w-]+ ){{1,5}}?(?:of|at|for) (?:the )?)"
    rf"(?P<names>{_CAPITAL}(?: (?:or |and |de |van |von |of )?{_CAPITAL})+)"
    r"(?P<rest>(?: (?:in|since|until|before|after) \d{4}| now| today)? ?\??)"
)
_ALTERNATIVES = re.compile(" or | and ")
_MOST_UNKNOWN = 2
"""Words of a value that the memory does not know: a longer one may be the end of another name."""


def value_first(text: str, find: Callable[[], Sequence[Mention]]) -> str:
    """The question with its value moved to the front, or the text if it is no such question.

    Args:
        text: A composed text.
        find: Finds labels, aliases and further names in it.
    """
    found = _ASKED.fullmatch(text)
    if found is None:
        return text
    known = find()
    start, end = found.span("names")
    named = [each for each in known if each.start == start and each.end < end and text[each.end] == " "]
    if not named:
        return text
    name = max(named, key=lambda each: (each.end, not each.derived))
    value = text[name.end + 1 : end]
    is_known = any(each.start == name.end + 1 for each in known)
    is_short = all(len(each.split()) <= _MOST_UNKNOWN for each in _ALTERNATIVES.split(value))
    if not value[0].isupper() or not (is_known or (is_short and not name.derived)):
        return text
    return f"{found['verb']} {value} {found['what']}{text[start : name.end]}{found['rest']}"
