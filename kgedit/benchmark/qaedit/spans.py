"""The subject of a question without any dictionary: a span of it, found by quotation marks, capitals and word order.

A span is a guess. Which rule made it is said with it, so that a reader can leave out the rules that are weak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgedit.benchmark.qaedit.words import EnglishWords

_TOKEN = re.compile(r"[\w$£€%#]+(?:['’.\-–/&][\w]+)*|[^\w\s]")
_DOUBLED = re.compile(r'""[^"]+""')
"""As a field of a CSV file has it that was never decoded, as some of TriviaQA's questions were not."""

_QUOTED = (
    re.compile(r'"([^"]+)"'),
    re.compile(r"“([^”]+)”"),
    re.compile(r"(?<!\w)‘([^’]+(?:’\w[^’]*)*)’"),
    re.compile(r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)"),
)
_POSSESSIVE = re.compile(r"['’]s?$")
_LATIN = re.compile(r"[a-z]{2,}(?:i|us|um|is|ensis|ana|ata|ica|oides|ella)$")
_LINKS = frozenset(("of", "in", "on", "for", "from", "that", "who", "which", "called", "named"))
_OBJECTS = frozenset(("place", "part"))
_ARTICLES = frozenset(("the", "a", "an"))
_CLAUSES = frozenset(("who", "which", "whose"))
_HELPERS = frozenset(("did", "does", "do", "has", "have", "had", "can", "could", "will", "would"))
_NOBLE = re.compile(r"\d+(?:st|nd|rd|th)|Jr|Sr|D\.C|Baron|Earl|Lord")
"""What stands behind a comma and belongs to the name ahead of it."""

_SENTENCE_END = frozenset('.?!:"“')


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a question.

    Attributes:
        start: Index of its first character.
        end: Index behind its last one.
        rule: What found it.
    """

    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True)
class Token:
    """A word or mark of a question, with its half-open range of characters."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()

    @property
    def is_word(self) -> bool:
        """Whether it is no mark."""
        return self.text[0].isalnum() or self.text[0] in "$£€#_"

    @property
    def is_capital(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.text[0].isupper()


def tokens_of(text: str) -> list[Token]:
    """The words and marks of a text."""
    return [Token(found.group(), *found.span()) for found in _TOKEN.finditer(text)]


def find_span(question: str, words: EnglishWords) -> Span | None:
    """The likeliest subject of a question; None where no rule finds one."""
    return next(_by_rules(question, words), None)


def _by_rules(question: str, words: EnglishWords) -> Iterator[Span]:
    tokens = tokens_of(question)
    ranked = _ranked(tokens, words)
    if ranked:
        yield _span(tokens, ranked, "rank")
    yield from _quoted(question)
    if any(token.is_capital and token.text != "I" for token in tokens[1:]) or _begins_with_name(tokens, words):
        yield from (_span(tokens, run, "capitals") for run in _names(tokens, words))
        yield from (_span(tokens, run, "what is asked for") for run in _asked_kind(tokens, words))
    phrase = _phrase(tokens, words)
    if phrase:
        yield _span(tokens, phrase, "phrase")
    yield from (_span(tokens, run, "what is asked for") for run in _asked_kind(tokens, words))


_Run = tuple[int, int]
"""A half-open range of tokens."""


def _span(tokens: Sequence[Token], run: _Run, rule: str) -> Span:
    return Span(tokens[run[0]].start, tokens[run[1] - 1].end, rule)


def _quoted(question: str) -> Iterator[Span]:
    """The first quotation, with its marks, unless there are several in a row, which are no titles."""
    doubled = [(found.start() + 1, found.end() - 1) for found in _DOUBLED.finditer(question)]
    found = doubled or sorted(match.span() for pattern in _QUOTED for match in pattern.finditer(question))
    titles = [(start, end) for start, end in found if _is_title(question[start + 1 : end - 1])]
    if titles and len(found) < 3:
        yield Span(*titles[0], "quotation")


def _is_title(text: str) -> bool:
    """Whether a quotation names something, and is no sentence that somebody said."""
    return text[:1].isupper() and not re.search(r"[.!?] \w", text)


def _begins_with_name(tokens: Sequence[Token], words: EnglishWords) -> bool:
    return bool(tokens) and tokens[0].is_capital and not _opens(tokens[0], words)


def _opens(token: Token, words: EnglishWords) -> bool:
    word = token.lower
    return word in words.opener or words.ends_phrase(word)


def _names(tokens: Sequence[Token], words: EnglishWords) -> Iterator[_Run]:
    """Runs of capitalised words in their order, as far as they are no nationality, month or title."""
    for start, end in _capital_runs(tokens, words):
        first = start
        if start == 0 and end > 2 and tokens[0].lower in words.role:
            first = 1
        run = tokens[first:end]
        if all(_names_nothing(token, words) for token in run) or _describes_a_name(tokens, end, words):
            continue
        yield _possessive(tokens, (first, end), words) or (first, _with_nouns(tokens, (first, end), words))


def _names_nothing(token: Token, words: EnglishWords) -> bool:
    text = _POSSESSIVE.sub("", token.text)
    return (
        not text[:1].isalpha()
        or text in words.adjective
        or text in words.month
        or text in words.weekday
        or text.lower() in words.particle
    )


def _describes_a_name(tokens: Sequence[Token], end: int, words: EnglishWords) -> bool:
    """Whether a run stands ahead of a role with a name: "Whig politician James Vernon"."""
    index = end
    while index < len(tokens) and tokens[index].is_word and not tokens[index].is_capital and index < end + 4:
        if words.ends_phrase(tokens[index].lower):
            return False
        index += 1
    return index > end and index < len(tokens) and tokens[index].is_capital and tokens[index - 1].lower in words.role


def _capital_runs(tokens: Sequence[Token], words: EnglishWords) -> Iterator[_Run]:
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
    """The end of a run after what may follow: a capital, a number, particles or "." and "," with a capital behind."""
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
    """Behind the capital that follows one or two words such as "of" and "the"."""
    further = end
    while further < len(tokens) and (tokens[further].lower in words.particle or tokens[further].text in ("&", "the")):
        further += 1
    joins = end < further < len(tokens) and further - end <= 3 and tokens[further].is_capital
    return further + 1 if joins else end


def _behind_place(tokens: Sequence[Token], end: int, words: EnglishWords) -> int:
    """Behind the region in "Remedios, Antioquia, Colombia," (a comma or the end follows it)."""
    further = end + 1
    while further < len(tokens) and tokens[further].is_capital and tokens[further].text not in words.adjective:
        further += 1
    if not end + 1 < further <= end + 4 or tokens[end - 1].text[0].isdigit() or tokens[end - 1].text in words.month:
        return end
    behind = tokens[further].text if further < len(tokens) else "?"
    and_follows = behind == "," and further + 1 < len(tokens) and tokens[further + 1].lower in ("and", "or")
    return further if behind in (",", "?") and not and_follows else end


def _with_nouns(tokens: Sequence[Token], run: _Run, words: EnglishWords) -> int:
    """The end of a run with the nouns behind it: "Gaspy app", "Father Brown detective series"."""
    start, end = run
    before = tokens[start - 1].lower if start else ""
    if before in words.auxiliary and before in ("did", "does", "do", "has", "have", "had"):
        return end
    further = end
    while further < len(tokens) and further < end + 3 and _is_noun(tokens[further], words):
        further += 1
    if further == end + 1 and end - start == 1 and _LATIN.match(tokens[end].text):
        return further
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


def _possessive(tokens: Sequence[Token], run: _Run, words: EnglishWords) -> _Run | None:
    """A run that ends in "'s" with what it possesses; without it where that is what is asked for."""
    start, end = run
    owner = next((index for index in range(start, end) if tokens[index].text.endswith(("'s", "’s"))), None)
    if owner is None:
        return None
    further = max(owner + 1, end)
    while further < len(tokens) and tokens[further].is_word and not words.ends_phrase(tokens[further].lower):
        further += 1
    asked = start and tokens[start - 1].lower in words.auxiliary
    return (start, further) if further > owner + 1 and not asked else None


def _asked_kind(tokens: Sequence[Token], words: EnglishWords) -> Iterator[_Run]:
    """What "which" and "what" stand ahead of: "Which mammal has ..."."""
    for index, token in enumerate(tokens[:-1]):
        if token.lower not in ("which", "what"):
            continue
        end = index + 1
        while end < len(tokens) and tokens[end].is_word and not words.ends_phrase(tokens[end].lower):
            end += 1
        if end > index + 1 and tokens[end - 1].lower not in words.measure:
            yield index + 1, end


def _ranked(tokens: Sequence[Token], words: EnglishWords) -> _Run | None:
    """What is told apart by a rank, to its end: "the only country in the world to ..."."""
    if not tokens or (tokens[0].lower not in words.question and tokens[0].lower != "name"):
        return None
    for index in range(2, min(len(tokens) - 1, 12)):
        if not _is_rank(tokens[index], words) or tokens[index - 1].lower != "the":
            continue
        if tokens[index - 2].lower not in words.auxiliary and tokens[index - 2].lower not in ("of", "name"):
            return None
        if tokens[index + 1].lower in words.measure or tokens[index + 1].lower in ("and", "to"):
            continue
        end = _end_of_words(tokens)
        if tokens[0].lower not in ("what", "who", "which", "name"):
            end = next((at for at in range(index + 1, end) if tokens[at].lower in words.verb), end)
        names_of = any(
            tokens[at].lower == "of" and any(token.is_capital for token in tokens[at + 1 : at + 3])
            for at in range(index, end)
        )
        capitals = any(token.is_capital for token in tokens[1:])
        return None if names_of else (index - 1 if capitals else index, end)
    return None


def _end_of_words(tokens: Sequence[Token]) -> int:
    """Without the marks at the end, but with the point of "U.S."."""
    end = len(tokens)
    while end and not tokens[end - 1].is_word:
        if tokens[end - 1].text == "." and end > 1 and "." in tokens[end - 2].text:
            break
        end -= 1
    return end


def _is_rank(token: Token, words: EnglishWords) -> bool:
    return token.lower in words.rank


def _phrase(tokens: Sequence[Token], words: EnglishWords) -> _Run | None:
    """The noun phrase that a question without capitals is about."""
    end = _end_of_words(tokens)
    start, inverted = _behind_opener(tokens, end, words)
    if start >= end:
        return None
    start = _behind_role(tokens, start, end, words)
    if inverted:
        end = _before_verb(tokens, start + 1, end, words)
    end = next((at for at in range(start + 1, end) if _begins_clause(tokens, at, words)), end)
    while start < end - 1 and tokens[start].lower in _ARTICLES:
        start += 1
    while inverted and end > start + 1 and tokens[end - 1].lower in words.boundary | words.rank:
        end -= 1
    return (start, end) if end > start else None


def _begins_clause(tokens: Sequence[Token], at: int, words: EnglishWords) -> bool:
    """Whether a relative clause, or a second question, begins at a token."""
    if tokens[at].lower == "and":
        return at + 1 < len(tokens) and tokens[at + 1].lower in words.question
    return tokens[at].text == "," or tokens[at].lower in _CLAUSES


def _before_verb(tokens: Sequence[Token], start: int, end: int, words: EnglishWords) -> int:
    """The end of a subject ahead of its verb, which is the last verb of the clause as a rule."""
    verbs = [at for at in range(start, end) if tokens[at].lower in words.verb]
    closed = [at for at in verbs if at == end - 1 or tokens[at + 1].lower in words.preposition | _OBJECTS]
    return (closed or verbs or [end])[0]


def _behind_opener(tokens: Sequence[Token], end: int, words: EnglishWords) -> tuple[int, bool]:
    """Where the question's own phrase begins, and whether a verb may follow it."""
    first = tokens[0].lower if tokens else ""
    if first in ("who's", "what's", "where's"):
        return 1, False
    if first not in words.question and first not in words.preposition and first not in words.role:
        return 0, True
    for index in range(1, min(end, 8)):
        word = tokens[index].lower
        behind = tokens[index + 1].lower if index + 1 < end else ""
        if word in words.auxiliary:
            if behind in words.verb and index + 2 < end:
                return _behind_prepositions(tokens, index + 2, end, words), False
            inverted = first not in ("who", "what", "which") or word in _HELPERS
            return index + 1, inverted
        if word in words.verb and first not in ("when", "where", "why", "how"):
            return _behind_prepositions(tokens, index + 1, end, words), False
    return 1, True


def _behind_prepositions(tokens: Sequence[Token], index: int, end: int, words: EnglishWords) -> int:
    """Behind "in" of "live in", "part in" of "took part in"."""
    if index + 1 < end and tokens[index].lower in ("part", "place") and tokens[index + 1].lower in words.preposition:
        return index + 2
    return index + 1 if index < end - 1 and tokens[index].lower in words.preposition else index


def _behind_role(tokens: Sequence[Token], start: int, end: int, words: EnglishWords) -> int:
    """Behind "the meaning of", "the song" and the like."""
    at = start
    while at < end - 1 and tokens[at].lower in _ARTICLES:
        at += 1
    further = at
    while further < end - 1 and tokens[further].lower in words.role:
        further += 1
    if further > at:
        while further < end - 1 and tokens[further].lower in _LINKS | words.verb:
            further += 1
        return further
    return start
