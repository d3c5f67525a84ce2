"""Names in a question: labels and aliases of subjects, found as whole words whatever their case and accents.

A name is the sequence of its words, so that "Tirana" holds no "Iran", and "Norway's" holds "Norway".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"\w+")
_LEAST_MISSPELT = 5
"""Letters of a word that may be misspelt: shorter ones are one letter from too many others."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: normalized, with its half-open range of characters."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text.

    Attributes:
        subjects: Numbers of all that bear the name, in the order in which they were added.
        start: Index of its first character.
        end: Index behind its last one.
        nested: Whether it lies within a longer name.
    """

    subjects: tuple[int, ...]
    start: int
    end: int
    nested: bool


def composed(text: str) -> str:
    """A text in Unicode's composed form, which mentions refer to."""
    return unicodedata.normalize("NFC", text)


def words_of(text: str) -> list[Word]:
    """The words of a composed text, without case and accents."""
    return [Word(_plain(found.group()), *found.span()) for found in _WORD.finditer(text)]


def name_key(name: str) -> str:
    """What two spellings of a name share: "São  Paulo" and "sao paulo"."""
    return " ".join(word.text for word in words_of(composed(name)))


class NameIndex:
    """Names and the numbers of their subjects. A look-up takes time by the length of the text alone."""

    def __init__(self) -> None:
        self._subjects: dict[str, int | tuple[int, ...]] = {}
        self._longest: dict[str, int] = {}
        self._spellings: _Spellings | None = None

    def __len__(self) -> int:
        return len(self._subjects)

    def add(self, name: str, subject: int) -> None:
        """Let a subject be found by a name; a name without letters and digits is passed over."""
        words = [word.text for word in words_of(composed(name))]
        if not words:
            return
        key = " ".join(words)
        there = self._subjects.get(key)
        if there is None:
            self._subjects[key] = subject
        elif subject not in (others := _numbers(there)):
            self._subjects[key] = (*others, subject)
        self._longest[words[0]] = max(self._longest.get(words[0], 0), len(words))
        if self._spellings is not None:
            self._spellings.add(words)

    def find(self, text: str) -> list[Mention]:
        """Every name in a composed text, nested ones too, in the order of where they begin, longer ones first."""
        return _marked(list(self._runs(words_of(text))))

    def find_misspelt(self, text: str) -> list[Mention]:
        """Names of which one word has a letter too many, too few, wrong, or two exchanged."""
        if self._spellings is None:
            self._spellings = _Spellings()
            for key in self._subjects:
                self._spellings.add(key.split(" "))
        words = words_of(text)
        found = []
        for index, word in enumerate(words):
            for near in self._spellings.near(word.text):
                changed = [*words[:index], Word(near, word.start, word.end), *words[index + 1 :]]
                found += [run for run in self._runs(changed) if run.start <= word.start and word.end <= run.end]
        return _marked(list(dict.fromkeys(found)))

    def _runs(self, words: Sequence[Word]) -> Iterator[Mention]:
        for first, word in enumerate(words):
            for size in range(min(self._longest.get(word.text, 0), len(words) - first), 0, -1):
                run = words[first : first + size]
                there = self._subjects.get(" ".join(part.text for part in run))
                if there is not None:
                    yield Mention(_numbers(there), run[0].start, run[-1].end, nested=False)


class _Spellings:
    """Words of names by what is left when one letter is taken away (Garbe's symmetric deletion)."""

    def __init__(self) -> None:
        self._words: dict[str, str | tuple[str, ...]] = {}
        self._known: set[str] = set()

    def add(self, words: Sequence[str]) -> None:
        for word in words:
            if len(word) >= _LEAST_MISSPELT and word not in self._known:
                self._known.add(word)
                for form in _without_one_letter(word):
                    there = self._words.get(form, ())
                    self._words[form] = (there, word) if isinstance(there, str) else (*there, word) if there else word

    def near(self, word: str) -> list[str]:
        """Words of names at one step from a word, in alphabetical order; none for a word that is one itself."""
        if len(word) < _LEAST_MISSPELT - 1 or word in self._known:
            return []
        found = set()
        for form in _without_one_letter(word):
            there = self._words.get(form, ())
            found |= {there} if isinstance(there, str) else set(there)
        return sorted(other for other in found if _one_step(word, other))


def _numbers(there: int | tuple[int, ...]) -> tuple[int, ...]:
    return (there,) if isinstance(there, int) else there


def _marked(mentions: list[Mention]) -> list[Mention]:
    """The same mentions, those within longer ones marked."""
    marked, furthest = [], (-1, -1)
    for mention in mentions:
        nested = mention.end <= furthest[1] and (mention.start, mention.end) != furthest
        marked.append(Mention(mention.subjects, mention.start, mention.end, nested=nested))
        if mention.end > furthest[1]:
            furthest = (mention.start, mention.end)
    return marked


def _plain(word: str) -> str:
    apart = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def _without_one_letter(word: str) -> set[str]:
    return {word, *(word[:index] + word[index + 1 :] for index in range(len(word)))}


def _one_step(one: str, other: str) -> bool:
    """Whether one letter is missing, added or wrong, or two neighbours are exchanged."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    a, b = one[start:], other[start:]
    exchanged = len(a) > 1 and len(b) > 1 and a[:2] == b[1::-1] and a[2:] == b[2:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or exchanged
