"""Subject of a question without a dictionary: a span found by quotation marks, capitals and word order.

A span is a guess. It records the rule that found it, so that readers can exclude weak rules. Rules read the words of a
question with their positions, and the word lists of prompts/qaedit/words.yaml.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache

from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue, refuse


@dataclass(frozen=True, slots=True)
class EnglishWords:
    """Words by their role in a question; the attributes are the lists of the file."""

    question: frozenset[str]
    auxiliary: frozenset[str]
    preposition: frozenset[str]
    determiner: frozenset[str]
    boundary: frozenset[str]
    verb: frozenset[str]
    role: frozenset[str]
    measure: frozenset[str]
    adjective: frozenset[str]
    month: frozenset[str]
    weekday: frozenset[str]
    opener: frozenset[str]
    particle: frozenset[str]
    rank: frozenset[str]

    def ends_phrase(self, word: str) -> bool:
        """Whether a word in lower case cannot be part of a simple noun phrase."""
        return (
            word in self.auxiliary
            or word in self.preposition
            or word in self.boundary
            or word in self.question
            or word in self.determiner
            or word in self.verb
        )


@cache
def english_words() -> EnglishWords:
    """The shipped lists."""
    path = data_folder("prompts") / "qaedit" / "words.yaml"
    content = read_catalogue(path)
    names = [field.name for field in fields(EnglishWords)]
    refuse(path, [f"'{name}' must be a text of words" for name in names if not isinstance(content.get(name), str)])
    return EnglishWords(**{name: frozenset(content[name].split()) for name in names})


_TOKEN = re.compile(r"[\w$£€%#]+(?:['’.\-–/&][\w]+)*|[^\w\s]")

Run = tuple[int, int]
"""A half-open range of tokens."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or punctuation mark of a question, with its half-open range of characters."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()

    @property
    def is_word(self) -> bool:
        """Whether it is a word, not a mark."""
        return self.text[0].isalnum() or self.text[0] in "$£€#_"

    @property
    def is_capital(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.text[0].isupper()


def tokens_of(text: str) -> list[Token]:
    """Split a text into words and marks."""
    return [Token(found.group(), *found.span()) for found in _TOKEN.finditer(text)]


def end_of_words(tokens: Sequence[Token]) -> int:
    """Index after the last word: without the marks at the end, but with the point of "U.S."."""
    end = len(tokens)
    while end and not tokens[end - 1].is_word:
        if tokens[end - 1].text == "." and end > 1 and "." in tokens[end - 2].text:
            break
        end -= 1
    return end


_DOUBLED = re.compile(r'""[^"]+""')
"""Quotation in a CSV field that was never decoded, as in some of TriviaQA's questions."""

_QUOTED = (
    re.compile(r'"([^"]+)"'),
    re.compile(r"“([^”]+)”"),
    re.compile(r"(?<!\w)‘([^’]+(?:’\w[^’]*)*)’"),
    re.compile(r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)"),
)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a question.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        rule: Rule that found it.
    """

    start: int
    end: int
    rule: str


def find_span(question: str, words: EnglishWords) -> Span | None:
    """Find the most likely subject of a question; None if no rule finds one."""
    return next(_by_rules(question, words), None)


def _by_rules(question: str, words: EnglishWords) -> Iterator[Span]:
    tokens = tokens_of(question)
    ranked = ranked_phrase(tokens, words)
    if ranked:
        yield _span(tokens, ranked, "rank")
    yield from _quoted(question)
    if has_capitals(tokens, words):
        yield from (_without_possessive(_span(tokens, run, "capitals"), question) for run in name_runs(tokens, words))
        yield from (_span(tokens, run, "what is asked for") for run in asked_kinds(tokens, words))
    phrase = main_phrase(tokens, words)
    if phrase and any(_means_something(token, words) for token in tokens[phrase[0] : phrase[1]]):
        yield _span(tokens, phrase, "phrase")
    yield from (_span(tokens, run, "what is asked for") for run in asked_kinds(tokens, words))


def _span(tokens: Sequence[Token], run: Run, rule: str) -> Span:
    return Span(tokens[run[0]].start, tokens[run[1] - 1].end, rule)


def _without_possessive(span: Span, question: str) -> Span:
    return dataclasses.replace(span, end=span.end - 2) if question[: span.end].endswith(POSSESSIVE) else span


def _means_something(token: Token, words: EnglishWords) -> bool:
    function_words = words.question | words.auxiliary | words.preposition | words.determiner | words.boundary
    return token.is_word and token.lower not in function_words


def _quoted(question: str) -> Iterator[Span]:
    """Yield the first quotation, with its marks, unless there are several in a row, which are not titles."""
    doubled = [(found.start() + 1, found.end() - 1) for found in _DOUBLED.finditer(question)]
    found = doubled or sorted(match.span() for pattern in _QUOTED for match in pattern.finditer(question))
    titles = [(start, end) for start, end in found if _is_title(question[start + 1 : end - 1])]
    if titles and len(found) < 3:
        yield Span(*titles[0], "quotation")


def _is_title(text: str) -> bool:
    """Whether a quotation is a name, not a quoted sentence."""
    return text[:1].isupper() and not re.search(r"[.!?] \w", text)


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
    # At most four words, as in "Tory shadow cabinet member Ann Vale": a guess; a longer gap is another phrase.
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
        # Initials and short titles ("J.", "St.", "Mrs."); after a longer word a full stop ends the sentence.
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


_LINKS = frozenset(("of", "in", "on", "for", "from", "that", "who", "which", "called", "named"))
_OBJECTS = frozenset(("place", "part"))
_ARTICLES = frozenset(("the", "a", "an"))
_CLAUSES = frozenset(("who", "which", "whose"))
_HELPERS = frozenset(("did", "does", "do", "has", "have", "had", "can", "could", "will", "would"))


def ranked_phrase(tokens: Sequence[Token], words: EnglishWords) -> Run | None:
    """The phrase that a rank or "only" selects from, to its end: "the only bridge in the county that ..."."""
    if not tokens or (tokens[0].lower not in words.question and tokens[0].lower != "name"):
        return None
    for index in range(2, min(len(tokens) - 1, 12)):
        if not _is_rank(tokens[index], words) or tokens[index - 1].lower != "the":
            continue
        if tokens[index - 2].lower not in words.auxiliary and tokens[index - 2].lower not in ("of", "name"):
            return None
        if tokens[index + 1].lower in words.measure or tokens[index + 1].lower in ("and", "to"):
            continue
        end = end_of_words(tokens)
        if tokens[0].lower not in ("what", "who", "which", "name"):
            end = next((at for at in range(index + 1, end) if tokens[at].lower in words.verb), end)
        names_of = any(
            tokens[at].lower == "of" and any(token.is_capital for token in tokens[at + 1 : at + 3])
            for at in range(index, end)
        )
        capitals = any(token.is_capital for token in tokens[1:])
        return None if names_of else (index - 1 if capitals else index, end)
    return None


def main_phrase(tokens: Sequence[Token], words: EnglishWords) -> Run | None:
    """The noun phrase that is the subject of a question without capitals."""
    end = end_of_words(tokens)
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
    """Whether a relative clause or a second question begins at a token."""
    if tokens[at].lower == "and":
        return at + 1 < len(tokens) and tokens[at + 1].lower in words.question
    return tokens[at].text == "," or tokens[at].lower in _CLAUSES


def _before_verb(tokens: Sequence[Token], start: int, end: int, words: EnglishWords) -> int:
    """End of a subject before its verb, which is usually the last verb of the clause."""
    verbs = [at for at in range(start, end) if tokens[at].lower in words.verb]
    closed = [at for at in verbs if at == end - 1 or tokens[at + 1].lower in words.preposition | _OBJECTS]
    return (closed or verbs or [end])[0]


def _behind_opener(tokens: Sequence[Token], end: int, words: EnglishWords) -> tuple[int, bool]:
    """Start of the question's own phrase, and whether a verb may follow it."""
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
    """Position after "in" of "live in", "part in" of "took part in"."""
    if index + 1 < end and tokens[index].lower in ("part", "place") and tokens[index + 1].lower in words.preposition:
        return index + 2
    return index + 1 if index < end - 1 and tokens[index].lower in words.preposition else index


def _behind_role(tokens: Sequence[Token], start: int, end: int, words: EnglishWords) -> int:
    """Position after "the meaning of", "the song" and the like."""
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


def asked_kinds(tokens: Sequence[Token], words: EnglishWords) -> Iterator[Run]:
    """Yield the noun phrases after "which" and "what": "Which wood floats ..."."""
    for index, token in enumerate(tokens[:-1]):
        if token.lower not in ("which", "what"):
            continue
        end = index + 1
        while end < len(tokens) and tokens[end].is_word and not words.ends_phrase(tokens[end].lower):
            end += 1
        if end > index + 1 and tokens[end - 1].lower not in words.measure:
            yield index + 1, end


def _is_rank(token: Token, words: EnglishWords) -> bool:
    return token.lower in words.rank
