"""Index of words of names with one letter deleted, to find misspelt words.

Symmetric deletion (W. Garbe, SymSpell): a word and its misspelling share a form with at most one letter deleted. The
table is built at the first unsuccessful search for a name, and extended from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from kgedit.names.columns import KeyedNumbers, TextColumn, hashed

_LEAST_MISSPELT = 5
"""Minimum length of a word that may be misspelt: shorter ones are one letter away from too many others."""
_AT_ONCE = 20_000


class Spellings:
    """Words of names, searchable by words that differ in one letter."""

    def __init__(self) -> None:
        self._words, self._numbers, self._forms = TextColumn(), KeyedNumbers(), KeyedNumbers()
        self._in_forms = 0

    @property
    def nbytes(self) -> int:
        """Size in bytes; most of it is the table of deletions, once that is built."""
        return self._words.nbytes + self._numbers.nbytes + self._forms.nbytes

    def extend(self, keys: Sequence[str]) -> None:
        """Add the words of names (kgedit.names.index.name_key)."""
        words = list(dict.fromkeys(word for key in keys for word in key.split(" ") if len(word) >= _LEAST_MISSPELT))
        hashes = hashed(words)
        new = self._numbers.first(hashes) < 0
        self._numbers.add(hashes[new], np.arange(len(self._words), len(self._words) + int(new.sum())))
        self._words.extend([word for word, fresh in zip(words, new.tolist(), strict=True) if fresh])

    def near(self, word: str) -> list[str]:
        """Words of names one step away from a word, in alphabetical order; empty if it is itself such a word."""
        if len(word) < _LEAST_MISSPELT - 1 or self._numbers.first(hashed([word]))[0] >= 0:
            return []
        self._catch_up()
        _, found = self._forms.find(hashed(_without_one_letter(word)))
        others = {self._words[number] for number in np.unique(found).tolist()}
        return sorted(other for other in others if _one_step(word, other))

    def tables(self) -> dict[str, pa.Table]:
        """The words, as tables to save; the deletions are derived from them."""
        return {"name_words": pa.table({"word": self._words.to_arrow()})}

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Load the result of `tables`."""
        self.extend(tables["name_words"]["word"].to_pylist())

    def _catch_up(self) -> None:
        """Add words to the table of deletions that were added since the last call."""
        while self._in_forms < len(self._words):
            last = min(self._in_forms + _AT_ONCE, len(self._words))
            forms = [
                (form, number)
                for number in range(self._in_forms, last)
                for form in sorted(_without_one_letter(self._words[number]))
            ]
            self._forms.add(hashed(form for form, _ in forms), [number for _, number in forms])
            self._in_forms = last


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
