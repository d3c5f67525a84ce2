"""Names in a question with capitalization: runs of capitalised words with the words that belong to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kgedit.timesteps.qaedit.tokens import Run, Token
from kgedit.timesteps.qaedit.words import EnglishWords

POSSESSIVE = ("'s", "’s")
"""Endings of a possessive."""

_BE = frozenset(("is", "was", "are", "were", "who's", "what's"))
_LATIN = re.compile(r"[a-z]{2,}(?:i|us|um|is|ensis|ana|ata|ica|oides|ella)$")
"""Pattern of the second word of a species."""

_NOBLE = re.compile(r"\d+[a-z]{2}|Jr|Sr|D\.C|Baron|Earl|Lord")
"""Text that may follow a comma and belongs to the name before it."""

_SENTENCE_END = frozenset('.?!:"“')


def has_capitals(tokens: Sequence[Token], words: EnglishWords) -> bool:
    """Whether a question is capitalised, so that capitals identify names."""
    begins_with_name = bool(tokens) and tokens[0].is_capital and not _opens(tokens[0], words)
    return begins_with_name or any(token.is_capital and token.text != "I" for token in tokens[1:])


def _opens(token: Token, words: EnglishWords) -> bool:
    word = token.lower
    return word in words.opener or words.ends_phrase(word)


def name_runs(tokens: Sequence[Token], words: EnglishWords) -> Iterator[Run]:
    """Yield runs of capitalised words in order, except nationalities, months and titles."""
    for start, end in _capital_runs(tokens, words):
        first = start
        if start == 0 and end > 2 and tokens[0].lower in words.role:
            first = 1
        run = tokens[first:end]
        if all(_names_nothing(token, words) for token in run) or _describes_a_name(tokens, end, words):
            continue
        owner = next((at for at in range(first, end) if tokens[at].text.endswith(POSSESSIVE)), None)
        if owner is None:
            yield first, _with_nouns(tokens, (first, end), words)
        else:
            yield first, _end_of_possession(tokens, (first, end), owner, words)


def _names_nothing(token: Token, words: EnglishWords) -> bool:
    text = token.text.removesuffix("'s").removesuffix("’s")
    return (
        not text[:1].isalpha()
        or text in words.adjective
        or text in words.month
        or text in words.weekday
        or text.lower() in words.particle
    )


def _describes_a_name(tokens: Sequence[Token], end: int, words: EnglishWords) -> bool:
    """Whether a run precedes a role with a name: "Tory candidate Ann Vale"."""
    index = end
    while index < len(tokens) and tokens[index].is_word and not tokens[index].is_capital and index < end + 4:
        if words.ends_phrase(tokens[index].lower):
            return False
        index += 1
    return index > end and index < len(tokens) and tokens[index].is_capital and tokens[index - 1].lower in words.role


def _capital_runs(tokens: Sequence[Token], words: EnglishWords) -> Iterator[Run]:
    index = 0
    while index < len(tokens):
        if not _begins_run(tokens, index, words):
            index += 1
            continue
        end = index + 1
        while (further := _continued(tokens, end, words)) > end:
            end = further
        yield index, end
        index = end


def _begins_run(tokens: Sequence[Token], index: int, words: EnglishWords) -> bool:
    token = tokens[index]
    if token.text in ("I", "I'm"):
        return False
    heads = index == 0 or tokens[index - 1].text in _SENTENCE_END
    if token.is_capital:
        return not (heads and _opens(token, words))
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    return token.text[0].isdigit() and following is not None and following.is_capital and not heads


def _continued(tokens: Sequence[Token], end: int, words: EnglishWords) -> int:
    """End of a run with its continuation: a capital, a number, particles, or "." and "," followed by a capital."""
    if end >= len(tokens):
        return end
    token, ahead = tokens[end], tokens[end - 1]
    if token.is_capital or token.text[0].isdigit():
        return end + 1
    if end + 1 == len(tokens):
        return end
    if token.text == ".":
        return end + 1 if len(ahead.text) <= 3 else end
    if token.text == ",":
        return end + 2 if _NOBLE.fullmatch(tokens[end + 1].text) else _behind_place(tokens, end, words)
    return _behind_particles(tokens, end, words)


def _behind_particles(tokens: Sequence[Token], end: int, words: EnglishWords) -> int:
    """Position after the capital that follows one or two words such as "of" and "the"."""
    further = end
    while further < len(tokens) and (tokens[further].lower in words.particle or tokens[further].text in ("&", "the")):
        further += 1
    joins = end < further < len(tokens) and further - end <= 3 and tokens[further].is_capital
    return further + 1 if joins else end


def _behind_place(tokens: Sequence[Token], end: int, words: EnglishWords) -> int:
    """Position after the region in "Dunmore, Tasmania, Australia," (a comma or the end follows it)."""
    further = end + 1
    while further < len(tokens) and tokens[further].is_capital and tokens[further].text not in words.adjective:
        further += 1
    if not end + 1 < further <= end + 4 or tokens[end - 1].text[0].isdigit() or tokens[end - 1].text in words.month:
        return end
    behind = tokens[further].text if further < len(tokens) else "?"
    and_follows = behind == "," and further + 1 < len(tokens) and tokens[further + 1].lower in ("and", "or")
    return further if behind in (",", "?") and not and_follows else end


def _with_nouns(tokens: Sequence[Token], run: Run, words: EnglishWords) -> int:
    """End of a run with the nouns that follow it: "Skipjack engine", "Harbour Lane short stories"."""
    start, end = run
    before = tokens[start - 1].lower if start else ""
    if before in words.auxiliary and before in ("did", "does", "do", "has", "have", "had"):
        return end
    further = end
    while further < len(tokens) and further < end + 3 and _is_noun(tokens[further], words):
        further += 1
    species = end - start == 1 and further > end and (before == "species" or _LATIN.match(tokens[end].text))
    if species and not words.ends_phrase(tokens[end].lower):
        return end + 1
    behind = tokens[further].lower if further < len(tokens) else "?"
    stops = (
        not behind[0].isalnum() or behind in words.auxiliary or behind in words.preposition or behind in words.boundary
    )
    return further if stops else end


def _is_noun(token: Token, words: EnglishWords) -> bool:
    word = token.lower
    return (
        token.is_word
        and not token.is_capital
        and word.isalpha()
        and not words.ends_phrase(word)
        and not word.endswith(("ed", "ly"))
    )


def _end_of_possession(tokens: Sequence[Token], run: Run, owner: int, words: EnglishWords) -> int:
    """End of the possessed noun phrase; end of the owner if the question asks for it: "Who is Ann's sister?"."""
    start, end = run
    ahead = tokens[start - 2 : start] if start else []
    if any(token.lower in _BE for token in ahead[-1:]) or (
        len(ahead) == 2 and ahead[0].lower in _BE and ahead[1].lower == "the"
    ):
        return owner + 1
    further = max(owner + 1, end)
    while further < len(tokens) and tokens[further].is_word and not words.ends_phrase(tokens[further].lower):
        further += 1
    return further
