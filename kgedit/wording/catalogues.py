"""YAML catalogues of prompts, and the languages for which there are catalogues of templates.

A repeated key is an error and never lost silently. The rules of a language besides English are in the file
`catalogue.yaml` of its templates. A name with an article is in the nominative and begins with a mark: "~die Schweiz".
The rules join it to the words before the mark: "von ~die Schweiz" becomes "der Schweiz". Phrases of other templates
begin with the mark and an article too, so the same rules inflect nested questions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kgedit.errors import TimestepError
from kgedit.resources import data_folder
from kgedit.yaml_files import SafeLoader


class _Loader(SafeLoader):
    """Safe loader, in C if available, that refuses a mapping with a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"written twice: {', '.join(twice)}", node.start_mark)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def read_catalogue(path: Path) -> dict[str, Any]:
    """Read the mapping of a catalogue file.

    Raises:
        TimestepError: if the file is missing, is not valid YAML, or does not contain a mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise TimestepError(
            f"The catalogue {path} cannot be read: {error.strerror}. Name a YAML file like those under prompts/."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TimestepError(f"The catalogue {path} is not valid YAML in UTF-8. Mend it:\n{error}") from error
    if not isinstance(content, dict):
        raise TimestepError(
            f"The catalogue {path} contains no mapping. Give it keys, as the files under prompts/ have."
        )
    return content


def refuse(path: Path, problems: list[str]) -> None:
    """Report all problems of a catalogue at once.

    Raises:
        TimestepError: if there is any problem.
    """
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise TimestepError(f"The catalogue {path} breaks its contract; mend these entries:\n{listed}")


def content_hash(paths: list[Path]) -> str:
    """First 16 hex digits of a SHA-256 over names and contents, independent of the order of the paths."""
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


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

    def needed_name(self, name: str) -> str:
        """What a question must contain of a name with its article, as by `what_is_needed`."""
        marked = name if self.is_english or name.startswith(MARK) else MARK + name
        return _substituted(marked, self.needed).removeprefix(MARK)

    def join(self, text: str) -> str:
        """A text, as by `joined`."""
        text = _substituted(text, self.joins).replace(MARK, "")
        return text if self.is_english or self.script == "Han" else text[:1].upper() + text[1:]


def _substituted(text: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


def _replaced(text: str, rules: tuple[tuple[str, str], ...]) -> str:
    """SQL of a text, as by `_substituted`."""
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
