"""Lists of names in a question: "Who leads France, Germany and Brazil?" asks the same about each of them.

Each name is read in the question without the others, "Who leads France?", because the relation matcher knows questions
about one name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgedit.graph_memory.longer_names import qualifying_countries

Span = tuple[int, int]
"""Half-open range of characters."""

_AND = r"(?i:and|or|&|plus|as well as|und|oder|sowie|et|ou|y|e|o|u)"
_LINK = (
    rf"(?:['’]s?)?(?:,|,? {_AND}(?: also)?) (?i:(?:of|in|at|for|from|von|bei|de|di|en|à) )?"
    r"(?i:(?:the|der|die|das|dem|den|la|le|les|el|los|las|del|des|du) |[dl]['’])?"
)
_UNKNOWN = r"[A-ZÀ-Þ][\w.-]*(?: [A-ZÀ-Þ][\w.-]*)*"
_JOINED = re.compile(rf"{_LINK}(?:{_UNKNOWN}{_LINK})*")
_BEFORE = re.compile(rf"(?<=[a-z] )(?:{_UNKNOWN}{_LINK})+$")
_AFTER = re.compile(rf",? {_AND} {_UNKNOWN}")
_WORD = re.compile(rf" {_AND} ")
_WHETHER = re.compile(
    r"(?:is|are|was|were|do|does|did|has|have|ist|war|hat|est|es|fue) (?:the |der |die |le |la )?", re.IGNORECASE
)
_OR = re.compile(r" (?:or|oder|ou|o|u) ")
_TOGETHER = re.compile(r"\b(?:between|zwischen|entre) (?:the )?$", re.IGNORECASE)


def lists_of(text: str, names: Sequence[Span]) -> list[list[Span]]:
    """Find lists: at least two names with a conjunction, or three, and between them only articles and unknown names.

    A choice is none: "Does Macron or Scholz lead France?".

    Unknown names around it are added to its first and last name. So is a country after a comma: "Vienna, Austria".

    Args:
        text: The text.
        names: Names in it without those inside longer ones.
    """
    lists: list[list[Span]] = []
    for name in sorted(set(names)):
        last = lists[-1][-1] if lists else (0, 0)
        joined = _JOINED.fullmatch(text, last[1], name[0]) if lists else None
        if joined is None:
            lists.append([name])
        elif joined.group() == ", " and qualifying_countries(text, *last):
            lists[-1][-1] = (last[0], name[1])
        else:
            lists[-1].append(name)
    return [one for one in lists if len(one) > 1 and _is_list(text, one)]


def _is_list(text: str, names: Sequence[Span]) -> bool:
    after = _AFTER.match(text, names[-1][1])
    worded = after is not None or _WORD.search(text, names[0][1], names[-1][0]) is not None
    before, between = text[: names[0][0]], text[names[0][1] : names[-1][0]]
    is_choice = _WHETHER.fullmatch(before) is not None and _OR.search(between) is not None
    return (worded or len(names) > 2) and not is_choice and _TOGETHER.search(before) is None


def read_alone(
    text: str, name: Span, others: Sequence[Span], lists: Sequence[Sequence[Span]]
) -> tuple[str, Span, list[Span]]:
    """Cut each list to the name, or to its first name, and move the ranges of the name and the others accordingly."""
    removed: list[Span] = []
    for several in lists:
        item = next((one for one in several if overlap(one, name)), several[0])
        before, after = _BEFORE.search(text[: several[0][0]]), _AFTER.match(text, several[-1][1])
        first, last = before.start() if before else several[0][0], after.end() if after else several[-1][1]
        cut = [span for span in ((first, item[0]), (item[1], last)) if span[0] < span[1]]
        if not any(overlap(span, name) for span in cut):
            removed += cut

    def moved(span: Span) -> Span:
        start, end = (at - sum(min(at, last) - first for first, last in removed if first < at) for at in span)
        return start, end

    starts, ends = [0, *(last for _, last in removed)], [*(first for first, _ in removed), len(text)]
    rest = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return rest, moved(name), [moved(one) for one in others if not any(overlap(span, one) for span in removed)]


def overlap(one: Span, other: Span) -> bool:
    """Whether two ranges share a character."""
    return one[0] < other[1] and other[0] < one[1]
