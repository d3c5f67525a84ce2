"""Names in a question: labels and aliases of subjects, matched as whole words, ignoring case and accents.

A name is a sequence of words, so "Tirana" does not contain "Iran", and "Norway's" contains "Norway".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgedit.columns import KeyedNumbers, Keys, Numbers, TextColumn, hashed

_WORD = re.compile(r"\w+")
_SHORT_TEXT = 2000
"""Characters of a text whose words are cached."""


@dataclass(frozen=True, slots=True)
class Word:
    """A normalized word of a text, with its half-open range of characters."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text.

    Attributes:
        subjects: Numbers of all subjects with the name, in the order in which they were added.
        start: Index of its first character.
        end: Index after its last character.
        nested: Whether it is part of a longer name.
        derived: Whether it is a nickname, a short form or a surname (kgedit.graph_memory.other_names).
        misspelt: Whether a word of it is misspelt.
    """

    subjects: tuple[int, ...]
    start: int
    end: int
    nested: bool
    derived: bool = False
    misspelt: bool = False


def composed(text: str) -> str:
    """A text in Unicode's composed form, to which the indices of mentions refer."""
    return unicodedata.normalize("NFC", text)


def words_of(text: str) -> tuple[Word, ...]:
    """Words of a composed text, normalized in case and accents."""
    return _keyed_words(text)[0]


def _keyed_words(text: str) -> tuple[tuple[Word, ...], Keys]:
    """Words of a composed text, and their keys."""
    return _read_short(text) if len(text) <= _SHORT_TEXT else _read(text)


@lru_cache(maxsize=64)
def _read_short(text: str) -> tuple[tuple[Word, ...], Keys]:
    """Cached, because each index of names reads a question several times."""
    return _read(text)


def _read(text: str) -> tuple[tuple[Word, ...], Keys]:
    words = tuple(Word(_plain(found.group()), *found.span()) for found in _WORD.finditer(text))
    return words, hashed(word.text for word in words)


def name_key(name: str) -> str:
    """Key shared by spellings of a name such as "São  Paulo" and "sao paulo"."""
    return " ".join(_plain(word) for word in _WORD.findall(composed(name)))


class NameIndex:
    """Names and the numbers of their subjects, keyed by the hash of a name's words.

    The time of a look-up depends on the length of the text, and hardly on the number of names.
    """

    def __init__(self) -> None:
        self._subjects, self._sizes = KeyedNumbers(), KeyedNumbers()
        self._spellings = Spellings()

    def __len__(self) -> int:
        """Number of pairs of a name and a subject."""
        return len(self._subjects)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._subjects.nbytes + self._sizes.nbytes + self._spellings.nbytes

    def add(self, name: str, subject: int) -> None:
        """Index a subject by a name; a name without letters and digits is ignored."""
        self.extend([name], [subject])

    def extend(self, names: Sequence[str], subjects: Sequence[int]) -> None:
        """Index subjects by one name each."""
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
        """All names in a composed text, including nested ones, ordered by start, longer ones first."""
        return _marked(self._runs(*_keyed_words(text)))

    def subjects_of(self, name: str) -> list[int]:
        """Numbers of the subjects with a name, in the order in which they were added."""
        found: list[int] = self._subjects.find(hashed([name_key(name)]))[1].tolist()
        return found

    def find_genitives(self, text: str) -> list[Mention]:
        """Names followed by a genitive s without an apostrophe, which the mention does not include: "norways king"."""
        words, keys = _keyed_words(text)
        found = []
        for index, word in enumerate(words):
            if len(word.text) > _LEAST_GENITIVE and word.text.endswith("s"):
                bare = Word(word.text[:-1], word.start, word.end - 1)
                bare_keys = np.append(keys[:index], hashed([bare.text]))
                found += self._runs([*words[:index], bare], bare_keys, least=index + 1)
        return _marked(found)

    def find_misspelt(self, text: str) -> list[Mention]:
        """Names with one misspelt word: one letter added, missing or wrong, or two letters exchanged."""
        words, keys = _keyed_words(text)
        found = []
        for index, several in self._spellings.near_each([word.text for word in words], keys).items():
            word = words[index]
            for near in several:
                changed = [*words[:index], Word(near, word.start, word.end), *words[index + 1 :]]
                runs = self._runs(changed, hashed(each.text for each in changed))
                found += [run for run in runs if run.start <= word.start and word.end <= run.end]
        return _marked(sorted(dict.fromkeys(found), key=lambda run: (run.start, -run.end)))

    def tables(self) -> dict[str, pa.Table]:
        """The index, as tables to save."""
        return {"names": self._subjects.to_arrow(), "name_sizes": self._sizes.to_arrow()} | self._spellings.tables()

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Load the result of `tables` into an empty index."""
        for index, name in ((self._subjects, "names"), (self._sizes, "name_sizes")):
            index.add(tables[name]["key"].to_numpy(), tables[name]["number"].to_numpy())
        self._spellings.load(tables)

    def _runs(self, words: Sequence[Word], keys: Keys, *, least: int = 0) -> list[Mention]:
        """Names among the runs of words.

        Args:
            words: Words of a text.
            keys: Keys of the words (kgedit.columns.hashed).
            least: Runs that end before this number of words are left out.
        """
        places, sizes = self._sizes.find(keys)
        found = sorted(zip(places.tolist(), sizes.tolist(), strict=True), key=lambda run: (run[0], -run[1]))
        runs = [words[first : first + size] for first, size in found if least <= first + size <= len(words)]
        if not runs:
            return []
        where, subjects = self._subjects.find(hashed(" ".join(word.text for word in run) for run in runs))
        return [
            Mention(tuple(number for _, number in group), runs[place][0].start, runs[place][-1].end, nested=False)
            for place, group in groupby(zip(where.tolist(), subjects.tolist(), strict=True), key=itemgetter(0))
        ]


def _paired(index: KeyedNumbers, keys: Keys, numbers: Numbers) -> NDArray[np.bool_]:
    """Mask of the pairs that an index contains."""
    places, found = index.find(keys)
    there = np.zeros(len(keys), dtype=bool)
    there[places[found == numbers[places]]] = True
    return there


def _marked(mentions: list[Mention]) -> list[Mention]:
    """The mentions, with those inside longer ones marked as nested."""
    marked, furthest = [], (-1, -1)
    for mention in mentions:
        nested = mention.end <= furthest[1] and (mention.start, mention.end) != furthest
        marked.append(Mention(mention.subjects, mention.start, mention.end, nested=nested))
        if mention.end > furthest[1]:
            furthest = (mention.start, mention.end)
    return marked


def _plain(word: str) -> str:
    return word.lower() if word.isascii() else without_accents(word.casefold())


def without_accents(text: str) -> str:
    """A text without combining characters, such as accents."""
    if text.isascii():
        return text
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))


_LEAST_GENITIVE = 4
_LEAST_MISSPELT = 5
"""Minimum length of a word that may be misspelt: shorter ones are one letter away from too many others."""
_WORDS_AT_ONCE = 20_000
"""Words whose forms are Python objects at the same time; a word has one form for each letter, and itself."""


class Spellings:
    """Words of names, searchable by words that differ in one letter.

    Symmetric deletion (W. Garbe, SymSpell): a word and its misspelling share a form with at most one letter deleted.
    The table is built at the first unsuccessful search for a name, and extended from then on.
    """

    def __init__(self) -> None:
        self._words, self._numbers, self._forms = TextColumn(), KeyedNumbers(), KeyedNumbers()
        self._in_forms = 0

    @property
    def nbytes(self) -> int:
        """Size in bytes; most of it is the table of deletions, once that is built."""
        return self._words.nbytes + self._numbers.nbytes + self._forms.nbytes

    def extend(self, keys: Sequence[str]) -> None:
        """Add the words of names (kgedit.wording.name_index.name_key)."""
        words = list(dict.fromkeys(word for key in keys for word in key.split(" ") if len(word) >= _LEAST_MISSPELT))
        hashes = hashed(words)
        new = self._numbers.first(hashes) < 0
        self._numbers.add(hashes[new], np.arange(len(self._words), len(self._words) + int(new.sum())))
        self._words.extend([word for word, fresh in zip(words, new.tolist(), strict=True) if fresh])

    def near(self, word: str) -> list[str]:
        """Words of names one step away from a word, in alphabetical order; empty if it is itself such a word."""
        return self.near_each([word], hashed([word])).get(0, [])

    def near_each(self, words: Sequence[str], keys: Keys) -> dict[int, list[str]]:
        """Result of `near` for each word that has one, by its index; one look-up for all of them.

        Args:
            words: The words.
            keys: Keys of the words (kgedit.columns.hashed).
        """
        known = self._numbers.first(keys).tolist()
        unknown = [
            index
            for index, (word, number) in enumerate(zip(words, known, strict=True))
            if number < 0 and len(word) >= _LEAST_MISSPELT - 1
        ]
        if not unknown:
            return {}
        self._catch_up()
        forms = [_form_keys(words[index]) for index in unknown]
        places, found = self._forms.find(np.concatenate(forms))
        if not len(found):
            return {}
        of_word = np.repeat(unknown, [len(keys) for keys in forms])[places]
        others: dict[int, set[int]] = {}
        for index, number in zip(of_word.tolist(), found.tolist(), strict=True):
            others.setdefault(index, set()).add(number)
        near = {
            index: sorted(other for other in map(self._words.__getitem__, numbers) if _one_step(words[index], other))
            for index, numbers in others.items()
        }
        return {index: several for index, several in near.items() if several}

    def tables(self) -> dict[str, pa.Table]:
        """The words, as tables to save; the deletions are derived from them."""
        return {"name_words": pa.table({"word": self._words.to_arrow()})}

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Load the result of `tables`."""
        self.extend(tables["name_words"]["word"].to_pylist())

    def _catch_up(self) -> None:
        """Add words to the table of deletions that were added since the last call."""
        while self._in_forms < len(self._words):
            last = min(self._in_forms + _WORDS_AT_ONCE, len(self._words))
            forms = [
                (form, number)
                for number in range(self._in_forms, last)
                for form in sorted(_without_one_letter(self._words[number]))
            ]
            self._forms.add(hashed(form for form, _ in forms), [number for _, number in forms])
            self._in_forms = last


@lru_cache(maxsize=8192)
def _form_keys(word: str) -> Keys:
    """Keys of a word and its forms with one letter deleted; cached, because questions share most of their words."""
    return hashed(_without_one_letter(word))


def _without_one_letter(word: str) -> set[str]:
    return {word, *(word[:index] + word[index + 1 :] for index in range(len(word)))}


def _one_step(one: str, other: str) -> bool:
    """Whether one letter is missing, added or wrong, or two adjacent letters are exchanged."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    a, b = one[start:], other[start:]
    exchanged = len(a) > 1 and len(b) > 1 and a[:2] == b[1::-1] and a[2:] == b[2:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or exchanged
