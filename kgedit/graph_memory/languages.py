"""Languages of a memory besides English: reads questions, and words facts.

A question is not translated as a sentence. The words around its names are replaced by English ones from a small lexicon
(prompts/memory/languages), so that dates, windows, the relation matcher and the gate need no second version. Names stay
as they are written: the memory has the labels of its snapshots, in its language.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from kgedit.errors import KgeditError
from kgedit.graph_memory.relations import SLOT
from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue, read_language
from kgedit.wording.name_index import Mention, Word, composed, name_key, words_of

ENGLISH = "en"
_MOST_WORDS = 5
"""Words of the longest entry."""
_LEAST_STEM = 3
"""Entries with an open ending are kept by this many first letters."""
_LEAST_MARKS = 2
_ENGLISH_MARKS = frozenset(
    ["a", "and", "are", "did", "do", "does", "for", "has", "have", "how", "i", "is", "it", "me", "of", "please", "tell"]
) | {"that", "the", "to", "was", "what", "when", "where", "which", "who"}
_DAY_FIRST = re.compile(
    r"(?<![\w/.-])(?P<day>0?[1-9]|[12]\d|3[01])(?P<mark>[./-])(?P<month>0?[1-9]|1[0-2])(?P=mark)(?P<year>[12]\d{3})"
    r"(?![\w/-])"
)
"""A date in figures; all languages besides English write the day before the month."""
_ACCUSATIVE = "@"
"""Before a slot in a wording: the name is an accusative object."""
_CLASSES = {
    "person": frozenset(["P19", "P20", "P26", "P27", "P69", "P106", "P509"]),
    "work": frozenset(["P495"]),
    "team": frozenset(["P115", "P118", "P286"]),
}
"""Relations by class of their subjects; countries and organizations have awards and successors as persons do."""
_OF_NO_PERSON = frozenset(["P6", "P36", "P112", "P159"])
"""Relations that no person has. Athletes have a coach (P286) and a league (P118)."""
_OPENING = str.maketrans("", "", "¿¡")

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the lexicon.

    Attributes:
        written: Its words with their accents, in lower case.
        words: Its words, normalized in case and accents.
        is_open: Which of them have open endings.
        english: The English for it.
        is_noun: Whether a genitive may follow.
    """

    written: tuple[str, ...]
    words: tuple[str, ...]
    is_open: tuple[bool, ...]
    english: str
    is_noun: bool

    def matches(self, words: Sequence[Word]) -> bool:
        """Whether the words of a text are those of the entry."""
        return len(words) == len(self.words) and all(
            word.text.startswith(own) if is_open else word.text == own
            for word, own, is_open in zip(words, self.words, self.is_open, strict=True)
        )

    def accents(self, text: str, words: Sequence[Word]) -> int:
        """Number of words that are written with the accents of the entry: "né" is "born", "ne" is not."""
        return sum(
            text[word.start : word.end].lower().startswith(own) for word, own in zip(words, self.written, strict=False)
        )


class Lexicon:
    """Words of one language with their English, its adjectives of places, and its wordings of relations.

    Args:
        language: Code of the language, "de".
        content: Content of its file.

    Attributes:
        questions: Relation -> wording of its facts.
        marks: Words that show that a text is in this language, normalized.
    """

    def __init__(self, language: str, content: Mapping[str, Any]) -> None:
        self.language = language
        self.questions: Mapping[str, str] = {
            name: text.replace(_ACCUSATIVE, "") for name, text in content["questions"].items()
        }
        self._sentences = {text.replace(_ACCUSATIVE, ""): text for text in content["questions"].values()}
        self._adjectives: Mapping[str, tuple[str, ...]] = {
            name_key(label): tuple(stem + ending for stem in stems for ending in content["endings"])
            for label, stems in content["names"].items()
        }
        self._inflected = tuple((row["from"], row["to"]) for row in content.get("inflected", ()))
        self.marks = frozenset(name_key(str(word)) for word in content["marks"])
        self._genitives = {name_key(word): english for word, english in content["genitives"].items()}
        self._entries: dict[str, list[_Entry]] = {}
        for section in ("nouns", "words"):
            for text, english in content[section].items():
                entry = _entry(str(text), str(english), is_noun=section == "nouns")
                self._entries.setdefault(_first(entry.words[0]), []).append(entry)
        for several in self._entries.values():
            several.sort(key=lambda each: (-len(each.words), sum(each.is_open), -len("".join(each.words))))

    def fill(self, wording: str, label: str, more: str = "", *, relations: Collection[str] = ()) -> str:
        """A wording of a fact about a subject; in those of the lexicon the name has its article and is inflected.

        Args:
            wording: Question with a slot.
            label: Label of the subject.
            more: Text after the name.
            relations: Ids of the subject's relations, which show whether it is a person, a work or a team.
        """
        if wording not in self._sentences:
            return wording.replace(SLOT, label + more)
        grammar = read_language(self.language)
        found = [name for name, own in _CLASSES.items() if not own.isdisjoint(relations)]
        if not _OF_NO_PERSON.isdisjoint(relations):
            found = [name for name in found if name != "person"]
        name = grammar.in_sentence(label, subject_class=next(iter(found), ""))
        return grammar.join(self._sentences[wording].replace(SLOT, name + more))

    def names_of(self, label: str) -> tuple[str, ...]:
        """Other names of a label: its adjectives, and its inflected form, "Vereinigten Staaten"."""
        inflected = self._inflect(label)
        return (*self._adjectives.get(name_key(label), ()), *([inflected] if inflected != label else []))

    def _inflect(self, label: str) -> str:
        """A label with all its leading adjectives inflected, of which each application of the rules inflects one."""
        inflected = label
        for pattern, replacement in self._inflected:
            inflected = re.sub(pattern, replacement, inflected)
        return label if inflected == label else self._inflect(inflected)

    def read_around(self, text: str, mentions: Sequence[Mention], *, inner: bool = False) -> str:
        """A text with the words around its names in English; "Kanzler" is a word if something else is named.

        An entry of the lexicon in lower case that is no noun is never a name: "la" is not Los Angeles.

        Args:
            text: The text, in composed Unicode form.
            mentions: Names in it.
            inner: Whether to read an office as words and keep only the name at its end: "presidente de los Estados
                Unidos".
        """
        if inner:
            mentions = [each for each in mentions if not self._is_office(text, each, mentions)]
        entries = [(each, self._entry_of(text[each.start : each.end])) for each in mentions]
        names = [
            (each, entry is not None and entry.is_noun)
            for each, entry in entries
            if entry is None or entry.is_noun or not text[each.start : each.end].islower()
        ]
        named = [each for each, is_word in names if not is_word] or [each for each, _ in names]
        return self.read(text, [(each.start, each.end) for each in named])

    def _is_office(self, text: str, mention: Mention, mentions: Sequence[Mention]) -> bool:
        """Whether a name begins with a noun and ends in another name, after which a genitive s may follow."""
        found = self._entry_at(text, words_of(text[mention.start : mention.end]))
        return (
            found is not None
            and found.is_noun
            and any(each.start > mention.start and 0 <= mention.end - each.end <= 1 for each in mentions)
        )

    def _entry_of(self, written: str) -> _Entry | None:
        """The entry that a text is as a whole."""
        words = words_of(written)
        found = self._entry_at(written, words)
        return found if found is not None and found.matches(words) else None

    def read(self, text: str, names: Sequence[Range]) -> str:
        """A text with its words in English, where the lexicon knows them, and dates in figures in ISO's form.

        Args:
            text: The text, in composed Unicode form.
            names: Half-open ranges of names, which stay as they are.
        """
        parts: list[str] = []
        end = 0
        for first, last, english in self._replaced(text, names):
            parts += [text[end:first], english]
            end = last
        read = " ".join("".join([*parts, text[end:]]).translate(_OPENING).split())
        return _DAY_FIRST.sub(lambda date: f"{date['year']}-{int(date['month']):02}-{int(date['day']):02}", read)

    def _replaced(self, text: str, names: Sequence[Range]) -> Iterator[tuple[int, int, str]]:
        words = words_of(text)
        place, noun_end = 0, -1
        while place < len(words):
            word = words[place]
            if any(first < word.end and word.start < last for first, last in names):
                place += 1
                continue
            reachable = self._reachable(text, words[place : place + _MOST_WORDS], names)
            if word.text in self._genitives and noun_end >= 0 and text[noun_end : word.start].isspace():
                yield word.start, word.end, self._genitives[word.text]
                place += 1
            elif (entry := self._entry_at(text, reachable)) is not None:
                yield word.start, *_ended(text, words[place + len(entry.words) - 1].end, entry.english)
                place += len(entry.words)
                noun_end = words[place - 1].end if entry.is_noun else -1
            else:
                place += 1

    def _reachable(self, text: str, words: Sequence[Word], names: Sequence[Range]) -> list[Word]:
        """Words of one phrase: only blanks, hyphens and apostrophes between them, and no name."""
        found = [words[0]]
        for before, word in pairwise(words):
            named = any(first < word.end and word.start < last for first, last in names)
            if named or text[before.end : word.start].strip(" -'’\u00a0\u202f"):
                break
            found.append(word)
        return found

    def _entry_at(self, text: str, words: Sequence[Word]) -> _Entry | None:
        """The longest entry that the first words are; of several, that with the accents of the text."""
        entries = self._entries.get(_first(words[0].text), ()) if words else ()
        found = [each for each in entries if each.matches(words[: len(each.words)])]
        longest = [each for each in found if len(each.words) == len(found[0].words)]
        return max(longest, key=lambda each: each.accents(text, words), default=None)


def _ended(text: str, end: int, english: str) -> tuple[int, str]:
    """End of a phrase and its English; an apostrophe that joins it to the next word is replaced: "d'Allemagne"."""
    return (end + 1, f"{english} ") if text[end : end + 1] in ("'", "’") else (end, english)


def _entry(text: str, english: str, *, is_noun: bool) -> _Entry:
    words = tuple(composed(text).lower().split())
    keys = tuple(name_key(word) for word in words)
    written = tuple(word.removesuffix("*") for word in words)
    return _Entry(written, keys, tuple(word.endswith("*") for word in words), english, is_noun)


def _first(word: str) -> str:
    return word[:_LEAST_STEM]


@cache
def read_lexicon(language: str) -> Lexicon | None:
    """Lexicon of a language; None for English.

    Raises:
        KgeditError: if there is none for the language, or its file is damaged.
    """
    if language == ENGLISH:
        return None
    folder = data_folder("prompts") / "memory" / "languages"
    path = folder / f"{language}.yaml"
    if not path.is_file():
        known = ", ".join(languages())
        raise KgeditError(f"There is no lexicon for the language '{language}'. A memory can be in: {known}.")
    try:
        return Lexicon(language, read_catalogue(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise KgeditError(f"{path} is no lexicon ({error}). Install kgedit again.") from error


def guess_language(text: str, names: Sequence[Mention] = ()) -> str:
    """Language of a text by its marks: at least two of them outside names, and more than English words.

    Args:
        text: The text, in composed Unicode form.
        names: Names in it, which may be of any language.

    Returns:
        Code of the language; ENGLISH if no other is certain.
    """
    words = [word.text for word in words_of(text) if not any(_covers(text, name, word) for name in names)]
    english = sum(word in _ENGLISH_MARKS for word in words)
    counts = {code: sum(word in marks for word in words) for code, marks in _marks().items()}
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] >= max(_LEAST_MARKS, english + 1) else ENGLISH


def has_marks(text: str) -> bool:
    """Whether a composed text has enough marks of a language for `guess_language` to guess it, names included."""
    words = [word.text for word in words_of(text)]
    return any(sum(word in marks for word in words) >= _LEAST_MARKS for marks in _marks().values())


@cache
def _marks() -> Mapping[str, frozenset[str]]:
    """Marks of each language besides English."""
    return {code: lexicon.marks for code in languages() if (lexicon := read_lexicon(code)) is not None}


def _covers(text: str, name: Mention, word: Word) -> bool:
    return name.start <= word.start < name.end and text[name.start : name.end][:1].isupper()


def languages() -> tuple[str, ...]:
    """Codes of the languages that a memory can be in; English first."""
    folder = data_folder("prompts") / "memory" / "languages"
    return (ENGLISH, *sorted(path.stem for path in folder.glob("*.yaml")))
