"""Names in a question: labels and aliases of subjects, found as whole words whatever their case and accents.

A name is the sequence of its words, so that "Tirana" holds no "Iran", and "Norway's" holds "Norway".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgedit.memory.columns import KeyedNumbers, Keys, Numbers, hashed
from kgedit.memory.spellings import Spellings

_WORD = re.compile(r"\w+")


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
    """Names and the numbers of their subjects, by the hash of a name's words.

    A look-up takes time by the length of the text, and hardly by the number of names.
    """

    def __init__(self) -> None:
        self._subjects, self._sizes = KeyedNumbers(), KeyedNumbers()
        self._spellings = Spellings()

    def __len__(self) -> int:
        """Pairs of a name and a subject."""
        return len(self._subjects)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._subjects.nbytes + self._sizes.nbytes + self._spellings.nbytes

    def add(self, name: str, subject: int) -> None:
        """Let a subject be found by a name; a name without letters and digits is passed over."""
        self.extend([name], [subject])

    def extend(self, names: Sequence[str], subjects: Sequence[int]) -> None:
        """Let subjects be found by names, one each."""
        keys = [name_key(name) for name in names]
        pairs = list(dict.fromkeys((key, number) for key, number in zip(keys, subjects, strict=True) if key))
        hashes, numbers = hashed(key for key, _ in pairs), np.array([number for _, number in pairs], dtype=np.int32)
        new = ~_paired(self._subjects, hashes, numbers)
        self._subjects.add(hashes[new], numbers[new])
        self._spellings.extend([key for (key, _), fresh in zip(pairs, new.tolist(), strict=True) if fresh])
        sizes = list(dict.fromkeys((key.partition(" ")[0], key.count(" ") + 1) for key, _ in pairs))
        firsts, lengths = hashed(word for word, _ in sizes), np.array([size for _, size in sizes], dtype=np.int32)
        unknown = ~_paired(self._sizes, firsts, lengths)
        self._sizes.add(firsts[unknown], lengths[unknown])

    def find(self, text: str) -> list[Mention]:
        """Every name in a composed text, nested ones too, in the order of where they begin, longer ones first."""
        return _marked(self._runs(words_of(text)))

    def find_misspelt(self, text: str) -> list[Mention]:
        """Names of which one word has a letter too many, too few, wrong, or two exchanged."""
        words = words_of(text)
        found = []
        for index, word in enumerate(words):
            for near in self._spellings.near(word.text):
                changed = [*words[:index], Word(near, word.start, word.end), *words[index + 1 :]]
                found += [run for run in self._runs(changed) if run.start <= word.start and word.end <= run.end]
        return _marked(sorted(dict.fromkeys(found), key=lambda run: (run.start, -run.end)))

    def tables(self) -> dict[str, pa.Table]:
        """The index, to be saved."""
        return {"names": self._subjects.to_arrow(), "name_sizes": self._sizes.to_arrow()} | self._spellings.tables()

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what `tables` returned; for a new index."""
        for index, name in ((self._subjects, "names"), (self._sizes, "name_sizes")):
            index.add(tables[name]["key"].to_numpy(), tables[name]["number"].to_numpy())
        self._spellings.load(tables)

    def _runs(self, words: Sequence[Word]) -> list[Mention]:
        """Every run of words that is a name."""
        places, sizes = self._sizes.find(hashed(word.text for word in words))
        found = sorted(zip(places.tolist(), sizes.tolist(), strict=True), key=lambda run: (run[0], -run[1]))
        runs = [words[first : first + size] for first, size in found if first + size <= len(words)]
        where, subjects = self._subjects.find(hashed(" ".join(word.text for word in run) for run in runs))
        return [
            Mention(tuple(number for _, number in group), runs[place][0].start, runs[place][-1].end, nested=False)
            for place, group in groupby(zip(where.tolist(), subjects.tolist(), strict=True), key=itemgetter(0))
        ]


def _paired(index: KeyedNumbers, keys: Keys, numbers: Numbers) -> NDArray[np.bool_]:
    """Which pairs an index has."""
    places, found = index.find(keys)
    there = np.zeros(len(keys), dtype=bool)
    there[places[found == numbers[places]]] = True
    return there


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
