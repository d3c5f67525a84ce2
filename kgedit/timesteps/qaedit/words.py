"""Word lists of the rules for subjects: prompts/qaedit/words.yaml."""

from __future__ import annotations

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
