"""Word clouds of subjects, relations and objects of edits (WikiBigEdit, figure 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kgedit.pages.charts.word_cloud import word_cloud
from kgedit.pages.marks import Figure
from kgedit.records.cases import Fact

_AROUND_WORDS = ',;:()"“”'
_FUNCTION_WORDS = frozenset(
    ("a", "an", "and", "as", "at", "by", "for", "from", "i", "in", "no", "of", "on", "or", "st", "the", "to", "was")
) | {"da", "de", "del", "der", "des", "di", "do", "du", "el", "en", "et", "la", "las", "le", "les", "los", "van", "von"}
"""Function words of labels, in the most frequent languages of names."""

_MOST_WORDS = 150


def word_figure(facts: Iterable[Fact]) -> Figure | None:
    """Word clouds of subjects and objects, and a cloud of relations by whole label; None without facts."""
    listed = list(facts)
    if not listed:
        return None
    # Files without relation names have a placeholder property.
    relations = Counter(fact.property_label or fact.property for fact in listed if fact.property.startswith("P"))
    counted = {
        "Words of subjects": _words(fact.subject_label for fact in listed),
        "Relations": _most(relations),
        "Words of objects": _words(fact.object_label for fact in listed),
    }
    panels = tuple(word_cloud(title, counts) for title, counts in counted.items() if counts)
    note = "Sized by the number of cases. Words without room are left out."
    return Figure("words", "What the edits are about", panels, note) if panels else None


def _words(labels: Iterable[str]) -> dict[str, int]:
    """Word -> number of labels that contain it, for the most frequent words; numbers and initials are ignored."""
    counts = Counter(
        word
        for label in labels
        for word in dict.fromkeys(part.strip(_AROUND_WORDS) for part in label.split())
        if word.casefold() not in _FUNCTION_WORDS and sum(map(str.isalpha, word)) > 1
    )
    return _most(counts)


def _most(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_MOST_WORDS])
