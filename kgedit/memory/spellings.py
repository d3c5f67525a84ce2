"""Words of names by what is left of them when one letter is taken away, to find a misspelt one.

Symmetric deletion (W. Garbe, SymSpell): of a word and a misspelling of it, some form with at most one letter deleted is
the same. The table is built when a name is first looked for in vain, and grows from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from kgedit.memory.columns import KeyedNumbers, TextColumn, hashed

_LEAST_MISSPELT = 5
"""Letters of a word that may be misspelt: shorter ones are one letter from too many others."""
_AT_ONCE = 20_000


class Spellings:
    """Words of names, and which of them are one letter from a word."""

    def __init__(self) -> None:
        self._words, self._numbers, self._forms = TextColumn(), KeyedNumbers(), KeyedNumbers()
        self._in_forms = 0

    @property
    def nbytes(self) -> int:
        """Bytes held; those of the table of deletions are most, once a name was looked for in vain."""
        return self._words.nbytes + self._numbers.nbytes + self._forms.nbytes

    def extend(self, keys: Sequence[str]) -> None:
        """Add the words of names (kgedit.memory.names.name_key)."""
        words = list(dict.fromkeys(word for key in keys for word in key.split(" ") if len(word) >= _LEAST_MISSPELT))
        hashes = hashed(words)
        new = self._numbers.first(hashes) < 0
        self._numbers.add(hashes[new], np.arange(len(self._words), len(self._words) + int(new.sum())))
        self._words.extend([word for word, fresh in zip(words, new.tolist(), strict=True) if fresh])

    def near(self, word: str) -> list[str]:
        """Words of names at one step from a word, in alphabetical order; none for a word that is one itself."""
        if len(word) < _LEAST_MISSPELT - 1 or self._numbers.first(hashed([word]))[0] >= 0:
            return []
        self._catch_up()
        _, found = self._forms.find(hashed(_without_one_letter(word)))
        others = {self._words[number] for number in np.unique(found).tolist()}
        return sorted(other for other in others if _one_step(word, other))

    def tables(self) -> dict[str, pa.Table]:
        """The words, to be saved; the deletions follow from them."""
        return {"name_words": pa.table({"word": self._words.to_arrow()})}

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what `tables` returned."""
        self.extend(tables["name_words"]["word"].to_pylist())

    def _catch_up(self) -> None:
        """Bring words that were added since the last time into the table of deletions."""
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
    """Whether one letter is missing, added or wrong, or two neighbours are exchanged."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    a, b = one[start:], other[start:]
    exchanged = len(a) > 1 and len(b) > 1 and a[:2] == b[1::-1] and a[2:] == b[2:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or exchanged
