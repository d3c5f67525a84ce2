"""Names in sentences: use of "the", and the class of a subject.

The rules are data: prompts/names/en.yaml. Rules that need a snapshot (classes, countries) are in
kgedit.timesteps.labels; this module looks only at labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kgedit.resources import data_folder
from kgedit.wording.catalogues import content_hash, read_catalogue, refuse
from kgedit.wording.grammar import SUBJECT_CLASSES


@dataclass(frozen=True, slots=True)
class NameRules:
    """Rules for English names.

    Attributes:
        classes: Root classes (QIDs) of each class of subjects.
        evidence: Properties (PIDs) that indicate the class of an item; earlier classes take precedence.
        article_classes: Classes (QIDs) whose instances take "the".
        article_labels: Complete labels that take "the".
        plural: Matches names, with article, that take a plural verb (a regular expression without lookaround).
        singular: Matches exceptions from `plural`, which take a singular verb.
        common: Matches lower-case labels that take "the" as an answer.
        article: Matches labels that take "the".
        never: Matches labels that never take "the"; takes precedence over all other rules.
    """

    classes: Mapping[str, tuple[str, ...]]
    evidence: Mapping[str, tuple[str, ...]]
    article_classes: tuple[str, ...]
    article_labels: frozenset[str]
    plural: str
    singular: str
    common: re.Pattern[str]
    article: re.Pattern[str]
    never: re.Pattern[str]

    def takes_article(self, label: str, *, subject_class: str = "", by_class: bool = False) -> bool:
        """Whether a label takes "the".

        Args:
            label: The label.
            subject_class: Class of the item; "" if unknown.
            by_class: Whether the item is an instance of one of article_classes.
        """
        if label in self.article_labels:
            return subject_class != "person"
        if (
            subject_class in ("person", "work")
            or label[:1].islower()
            or not label[:1].isalnum()
            or self.never.search(label)
        ):
            return False
        return by_class or bool(self.article.search(label))

    def in_sentence(self, label: str, *, subject_class: str = "", by_class: bool = False) -> str:
        """A label as used inside a sentence: trimmed, with "the" if it takes it."""
        label = " ".join(label.split())
        takes = self.takes_article(label, subject_class=subject_class, by_class=by_class)
        return f"the {label}" if takes else label

    def as_answer(self, label: str, *, subject_class: str = "") -> str:
        """A label as an answer: like `in_sentence`, but some common nouns take "the" ("the automotive industry")."""
        common = label[:1].islower() and self.common.search(label)
        return f"the {label}" if common else self.in_sentence(label, subject_class=subject_class)


def with_indefinite_article(label: str) -> str:
    """A singular name of a kind of things with "a" or "an"; a plural name unchanged.

    >>> with_indefinite_article("economist")
    'an economist'
    """
    plural = label.endswith("s") and not label.endswith(("ss", "us", "is"))
    return label if plural else f"{'an' if _begins_with_vowel(label) else 'a'} {label}"


_SPELLED = re.compile(r"[A-Z]{2,3}\b")  # NBA, EU: pronounced letter by letter
_SAID_AS_CONSONANT = re.compile(r"u(ni|se|s[aeiou]|r[aeiou]|t[aeiou])|eu|one\b|once", re.IGNORECASE)
_SAID_AS_VOWEL = re.compile(r"[aeiou]|hour|hono|heir", re.IGNORECASE)


def _begins_with_vowel(label: str) -> bool:
    if _SPELLED.match(label):
        return label[0] in "AEFHILMNORSX"
    return bool(_SAID_AS_VOWEL.match(label)) and not _SAID_AS_CONSONANT.match(label)


def shipped_names() -> Path:
    """Path of the shipped rules."""
    return data_folder("prompts") / "names" / "en.yaml"


@cache
def name_rules() -> NameRules:
    """Read the shipped rules.

    Raises:
        TimestepError: if their file is incomplete.
    """
    path = shipped_names()
    content = read_catalogue(path)
    refuse(
        path,
        [
            f"the key '{key}' is missing"
            for key in ("classes", "evidence", "plural", "singular", "common", "article")
            if key not in content
        ],
    )
    refuse(path, [f"'{name}' is not a class of subjects" for name in content["classes"] if name not in SUBJECT_CLASSES])
    article = content["article"]
    return NameRules(
        classes={name: tuple(ids) for name, ids in content["classes"].items()},
        evidence={name: tuple(ids) for name, ids in content["evidence"].items()},
        article_classes=tuple(article["classes"]),
        article_labels=frozenset(article["labels"]),
        plural=content["plural"],
        singular=content["singular"],
        common=re.compile(content["common"]),
        article=re.compile("|".join(f"(?:{pattern})" for pattern in article["patterns"])),
        never=re.compile("|".join(f"(?:{pattern})" for pattern in article["never"])),
    )


def names_version() -> str:
    """Content hash of the rules, for the provenance of a timestep."""
    return content_hash([shipped_names()])
