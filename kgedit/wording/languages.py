"""Languages of questions besides English, read from the file `catalogue.yaml` of their template catalogue.

A name with an article is in the nominative and begins with a mark: "~die Schweiz". Rules of the file join it to the
words before the mark: "von ~die Schweiz" becomes "der Schweiz". Phrases of other templates begin with the mark and an
article too, so the same rules inflect nested questions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kgedit.errors import TimestepError
from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue, refuse

MARK = "~"
"""Begins a name or phrase with an article, which may have to be inflected."""

_KEYS = ("articles", "patterns", "joins", "needed", "function_words", "derive")


@dataclass(frozen=True, slots=True)
class Language:
    """Grammar of a language; the default is English, whose rules are code (kgedit.timesteps.wording).

    Attributes:
        code: Code as in Wikidata, "de".
        articles: Label -> name in the nominative with its article.
        patterns: Patterns of labels, each with a replacement of the match and the class of subjects it is for ("" for
            all but persons and works).
        joins: Regular expressions (RE2) with replacements, applied in order to a text whose slot is filled.
        marks_names: Whether names without an article begin with the mark, too.
        needed: Regular expressions with replacements, which reduce a name to what a question must contain: without
            the words that are inflected.
        function_words: Words that express no relation; for Chinese, characters and pairs.
        script: Script of labels besides Latin: "Latin", or "Han" for Chinese, which has no spaces between words and
            ends sentences with "。".
    """

    code: str = "en"
    articles: Mapping[str, str] = field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], str, str], ...] = ()
    joins: tuple[tuple[str, str], ...] = ()
    marks_names: bool = False
    needed: tuple[tuple[str, str], ...] = (("^the ", ""),)
    function_words: frozenset[str] = frozenset()
    script: str = "Latin"

    @property
    def is_english(self) -> bool:
        """Whether this is English."""
        return self.code == "en"

    @property
    def letters(self) -> str:
        """Regular expression (RE2) of a letter, one of which every usable label has."""
        return r"\p{Latin}" if self.script == "Latin" else rf"[\p{{Latin}}\p{{{self.script}}}]"

    @property
    def space(self) -> str:
        """Text between the words, and the sentences, of a text."""
        return "" if self.script == "Han" else " "

    @property
    def full_stop(self) -> str:
        """Mark at the end of a sentence."""
        return "。" if self.script == "Han" else "."

    def in_sentence(self, label: str, *, subject_class: str = "") -> str:
        """A label as the subject of a sentence: trimmed, with its article if it takes one."""
        label = " ".join(label.split())
        bare = MARK + label if self.marks_names else label
        if subject_class == "person":
            return bare
        if label in self.articles:
            return MARK + self.articles[label]
        if subject_class != "work":
            for pattern, replacement, only in self.patterns:
                if only in ("", subject_class) and pattern.search(label):
                    return MARK + pattern.sub(replacement, label, count=1)
        return bare

    def joined(self, text: str) -> str:
        """SQL of a text whose slot is filled: inflected, and with a capital first letter."""
        if self.is_english:
            return text
        filled = unmarked(_replaced(text, self.joins))
        return filled if self.script == "Han" else _capital(filled)

    def what_is_needed(self, name: str) -> str:
        """SQL of what a question must contain of a name."""
        return _replaced(name, self.needed)

    def join(self, text: str) -> str:
        """A text, as by `joined`."""
        for pattern, replacement in self.joins:
            text = re.sub(pattern, replacement, text)
        text = text.replace(MARK, "")
        return text if self.is_english or self.script == "Han" else text[:1].upper() + text[1:]


def _replaced(text: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, replacement in rules:
        text = f"regexp_replace({text}, {_quoted(pattern)}, {_quoted(replacement)}, 'g')"
    return text


def _rules(rows: list[dict[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((row["from"], row["to"]) for row in rows)


def unmarked(text: str) -> str:
    """SQL of a text without marks."""
    return f"replace({text}, '{MARK}', '')"


def _capital(text: str) -> str:
    return f"list_transform([{text}], lambda joined: upper(joined[1]) || joined[2:])[1]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


ENGLISH = Language()


def language_codes() -> tuple[str, ...]:
    """Codes of the languages with a shipped catalogue; English first."""
    folder = data_folder("prompts") / "templates"
    others = sorted(path.parent.name for path in folder.glob("*/catalogue.yaml"))
    return ("en", *(code for code in others if code != "en"))


def language_catalogue(code: str) -> Path:
    """Folder of the shipped template catalogue of a language.

    Raises:
        TimestepError: if there is none.
    """
    if code not in language_codes():
        raise TimestepError(f"There are no question templates in '{code}'. Languages: {', '.join(language_codes())}.")
    return data_folder("prompts") / "templates" / code


@cache
def read_language(code: str) -> Language:
    """Grammar of a language.

    Raises:
        TimestepError: if there is none, or its file is incomplete.
    """
    if code == ENGLISH.code:
        return ENGLISH
    path = language_catalogue(code) / "catalogue.yaml"
    content: dict[str, Any] = read_catalogue(path)
    refuse(path, [f"the key '{key}' is missing" for key in _KEYS if key not in content])
    return Language(
        code=code,
        articles=content["articles"],
        patterns=tuple((re.compile(row["labels"]), row["name"], row.get("class", "")) for row in content["patterns"]),
        joins=_rules(content["joins"]),
        marks_names=content.get("marks_names", False),
        needed=_rules(content["needed"]),
        function_words=frozenset(content["function_words"].split()),
        script=content.get("script", "Latin"),
    )
