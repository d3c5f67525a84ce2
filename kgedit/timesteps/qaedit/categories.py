"""Topic of a question: by the topic in its source, or by its words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kgedit.names.index import words_of
from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue, refuse

REST = "Others"
"""Category of questions without a word of any other category."""


@dataclass(frozen=True, slots=True)
class Category:
    """A topic.

    Attributes:
        name: Name of one of the ten.
        rule: Evidence: "topic of the source", "words", "none" or "model".
    """

    name: str
    rule: str


class Categorizer:
    """Classifies questions by topic.

    Args:
        catalogue: Topics and words by category, as in prompts/qaedit/categories.yaml.
    """

    def __init__(self, catalogue: Mapping[str, Any]) -> None:
        self.names = tuple(catalogue)
        self._topics = {topic: name for name, entry in catalogue.items() for topic in entry["topics"]}
        self._patterns = {name: _pattern(entry["words"]) for name, entry in catalogue.items() if entry["words"]}

    def categorize(self, question: str, topic: str | None = None) -> Category:
        """Classify a question.

        Args:
            topic: Name of the topic in its source; None without one.
        """
        if topic in self._topics:
            return Category(self._topics[topic], "topic of the source")
        text = " ".join(word.text for word in words_of(question))
        counts = {name: len(set(pattern.findall(text))) for name, pattern in self._patterns.items()}
        best = max(counts, key=lambda name: counts[name], default=REST)
        return Category(best, "words") if counts.get(best) else Category(REST, "none")


@cache
def english_categorizer() -> Categorizer:
    """Categorizer with the shipped topics."""
    path = data_folder("prompts") / "qaedit" / "categories.yaml"
    categories = read_catalogue(path).get("categories")
    wrong = [] if isinstance(categories, dict) else ["'categories' must be a mapping"]
    for name, entry in (categories or {}).items():
        if not isinstance(entry, dict) or not isinstance(entry.get("topics"), list) or "words" not in entry:
            wrong.append(f"{name}: needs topics and words")
    refuse(path, wrong)
    assert isinstance(categories, dict)
    return Categorizer(categories)


def _pattern(lines: list[str]) -> re.Pattern[str]:
    """Pattern that matches a word or phrase of the lines in text whose words are separated by single spaces."""
    terms = [term for line in lines for term in (line.split("|") if "|" in line else line.split())]
    parts = [re.escape(_plain(term.removesuffix("*"))) + (r"\w*" if term.endswith("*") else "") for term in terms]
    return re.compile(rf"\b(?:{'|'.join(sorted(set(parts), key=lambda part: (-len(part), part)))})\b")


def _plain(term: str) -> str:
    return " ".join(word.text for word in words_of(term))
