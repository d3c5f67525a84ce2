"""Figures of changes: funnel, dates, relations, kinds, words (WikiBigEdit, figure 8), similarity of locality probes."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kgedit.pages.change_cards import BASES, Card
from kgedit.pages.charts.bars import count_bars, histogram, waterfall
from kgedit.pages.marks import Drawing, Figure, Mark, text
from kgedit.records.cases import SPECIFICITY, Fact
from kgedit.timesteps.description import by_powers_of_ten

WIDE, NARROW = 820, 440
"""Width of a drawing across the whole column of the page, and on a small screen."""

_MOST_BARS = 15
"""Maximum bars before "others": a figure of the page fits a screen."""
_MOST_MONTHS = _MOST_YEARS = 60
"""Maximum columns of a figure over time: with more, columns are narrower than their gaps."""
_FEW_YEARS = 5  # with this few years, the figure of months shows everything


@dataclass(frozen=True, slots=True)
class ChangeFigure:
    """A figure in a section of the page."""

    section: str
    figure: Figure


def change_figures(cards: Sequence[Card], manifest: dict[str, Any] | None) -> list[ChangeFigure]:
    """All figures for which there is data.

    Args:
        manifest: Manifest of the timestep; None means a file of edits.
    """
    makers = (
        _funnel(len(cards), manifest),
        _since(cards),
        _kinds(cards, manifest),
        _topics(cards),
        _specificity(cards),
        _well_known(cards),
        _words(cards),
    )
    return [found for made in makers for found in made]


def _funnel(cases: int, manifest: dict[str, Any] | None) -> Iterator[ChangeFigure]:
    funnel = (manifest or {}).get("funnel", {})
    if isinstance(funnel.get("changed"), int) and isinstance(funnel.get("dropped"), dict):
        drops = [(name, count) for name, count in funnel["dropped"].items() if count]
        idle = len(funnel["dropped"]) - len(drops)
        end = "cases" if funnel.get("kept") in (None, cases) else "updates"
        wide, narrow = (
            waterfall("What is left", funnel["changed"], drops, end, first="changed facts", width=width)
            for width in (WIDE, NARROW)
        )
        note = "Filters run in this order; a change is dropped by the first one that it fails."
        note += f" {idle} further filters dropped nothing." if idle else ""
        yield ChangeFigure("funnel", Figure("funnel", "From changes to cases", (wide,), note, (narrow,)))


def _since(cards: Sequence[Card]) -> Iterator[ChangeFigure]:
    stacks = list(_stacks(cards))
    undated = sum(card.year is None for card in cards)
    if stacks:
        note = "By the statements' own dates."
        note += f" {undated:,} of {len(cards):,} cases have none." if undated else ""
        wide, narrow = (tuple(_drawn(stack, width) for stack in stacks) for width in (WIDE, NARROW))
        yield ChangeFigure("since", Figure("since", "Since when the new value holds", wide, note, narrow))


@dataclass(frozen=True, slots=True)
class _Stack:
    """A histogram: title, names of its bars, and the name and tag of each counted case."""

    title: str
    names: tuple[str, ...]
    found: tuple[tuple[str, str], ...]


def _stacks(cards: Sequence[Card]) -> Iterator[_Stack]:
    months = [(card.case.start_time[:7], card.case.tag) for card in cards if card.case.start_time and _has_month(card)]
    names = _months(min(months)[0], max(months)[0]) if months else []
    by_month = 0 < len(names) <= _MOST_MONTHS
    if by_month:
        yield _Stack("Since when, by month", tuple(names), tuple(months))
    years = [(year, card.case.tag) for card in cards if (year := card.year) and len(year) == 4]
    if years:
        high = int(max(years)[0])
        low = max(int(min(years)[0]), high - _MOST_YEARS + 1)
        if not by_month or high - low >= _FEW_YEARS:
            yield _Stack("Since when, by year", tuple(str(year) for year in range(low, high + 1)), tuple(years))


def _has_month(card: Card) -> bool:
    time = card.case.start_time or ""
    return len(time) >= 7 and not time.startswith("-")


def _months(first: str, last: str) -> list[str]:
    year, month = int(first[:4]), int(first[5:7])
    names: list[str] = []
    while f"{year:04}-{month:02}" <= last and len(names) <= _MOST_MONTHS:
        names.append(f"{year:04}-{month:02}")
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return names


def _drawn(stack: _Stack, width: float) -> Drawing:
    updates = Counter(name for name, tag in stack.found if tag == "update")
    others = Counter(name for name, tag in stack.found if tag != "update")
    bars = [(name, updates[name], others[name]) for name in stack.names]
    labels = 12 if width > 600 else 6
    every = max(1, -(-len(bars) // labels))
    return histogram(stack.title, bars, parts=("replaced a value", "new"), width=width, every=every)


def _kinds(cards: Sequence[Card], manifest: dict[str, Any] | None) -> Iterator[ChangeFigure]:
    scenarios = (manifest or {}).get("scenarios", {})
    panels = [
        _bars("Kind of change", (card.case.kind for card in cards)),
        _bars("Confidence of the kind", (confidence_word(card.confidence) for card in cards)),
        _bars("Scenario of all updates", (name for name, count in scenarios.items() for _ in range(count))),
        _bars("Relation", (card.case.fact.property_label or card.case.fact.property for card in cards)),
    ]
    if any(panels):
        note = "Kinds follow from rules; their confidence is that of the rule, high from 0.9 and low below 0.7."
        found = tuple(panel for panel in panels if panel)
        yield ChangeFigure("kinds", Figure("kinds-and-relations", "Kinds and relations", found, note))


def confidence_word(confidence: float | None) -> str | None:
    """Confidence as a word."""
    if confidence is None:
        return None
    return "high" if confidence >= 0.9 else "medium" if confidence >= 0.7 else "low"


def _topics(cards: Sequence[Card]) -> Iterator[ChangeFigure]:
    panel = _bars("Class of the subject", (card.topic for card in cards))
    if panel:
        yield ChangeFigure("kinds", Figure("topics", "Topics", (panel,)))


def _specificity(cards: Sequence[Card]) -> Iterator[ChangeFigure]:
    counts = Counter(BASES.get(card.basis, card.basis) if card.basis else "no probe" for card in cards)
    if set(counts) <= {"no probe"}:
        return
    panels = [
        count_bars(
            "Locality probe: found by",
            sorted(counts.items(), key=lambda one: (-one[1], one[0])),
            role="good",
        )
    ]
    values = [card.similarity for card in cards if card.basis == "graph" and card.similarity is not None]
    if values:
        edges = [0, 1, 2, 4, 8, 16, 32]
        names = [f"{low}–{high}" for low, high in pairwise(edges)] + [f"over {edges[-1]}"]
        bins = Counter(sum(value >= edge for edge in edges[1:]) for value in values)
        panels.append(
            count_bars(
                "Rarity of the facts shared", [(name, bins[index]) for index, name in enumerate(names)], role="good"
            )
        )
    note = "A probe about a subject near the edited one is the harder test that an edit changes nothing else."
    yield ChangeFigure("specificity", Figure("specificity", "Specificity", tuple(panels), note))


def _well_known(cards: Sequence[Card]) -> Iterator[ChangeFigure]:
    panels = []
    for name in SPECIFICITY:
        side, _, measure = name.partition("_")
        values = [value for card in cards if (value := getattr(card.case.specificity, name)) is not None]
        if values:
            what = f"Page views of the {side}" if measure == "views" else f"Counts of the {side} in a corpus"
            panels.append(count_bars(what, by_powers_of_ten(values), names=150))
    if panels:
        note = "Number of cases. Views are those of the year before the newer snapshot."
        yield ChangeFigure("known", Figure("views-and-counts", "Views and counts", tuple(panels), note))


def _words(cards: Sequence[Card]) -> Iterator[ChangeFigure]:
    figure = word_figure(card.case.fact for card in cards)
    if figure:
        yield ChangeFigure("words", figure)


def _bars(title: str, values: Iterator[str | None]) -> Drawing | None:
    counts = Counter(value for value in values if value)
    if not counts:
        return None
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    rest = sum(count for _, count in ordered[_MOST_BARS:])
    shown = ordered[:_MOST_BARS] + ([(f"{len(ordered) - _MOST_BARS} others", rest)] if rest else [])
    return count_bars(title, shown)


_AROUND_WORDS = ',;:()"“”'
_FUNCTION_WORDS = frozenset(
    ("a", "an", "and", "as", "at", "by", "for", "from", "i", "in", "no", "of", "on", "or", "st", "the", "to", "was")
) | {"da", "de", "del", "der", "des", "di", "do", "du", "el", "en", "et", "la", "las", "le", "les", "los", "van", "von"}
"""Function words of labels, in the most frequent languages of names."""

_MOST_WORDS = 150  # offered to a cloud; those without room are left out


def word_figure(facts: Iterable[Fact]) -> Figure | None:
    """Word clouds of subjects and objects, and a cloud of relations by whole label; None without facts."""
    listed = list(facts)
    if not listed:
        return None
    # Files without relation names have a placeholder property.
    relations = Counter(fact.property_label or fact.property for fact in listed if fact.property.startswith("P"))
    counted = {
        "Words of subjects": _frequent_words(fact.subject_label for fact in listed),
        "Relations": _most(relations),
        "Words of objects": _frequent_words(fact.object_label for fact in listed),
    }
    panels = tuple(word_cloud(title, counts) for title, counts in counted.items() if counts)
    note = "Sized by the number of cases. Words without room are left out."
    return Figure("words", "What the edits are about", panels, note) if panels else None


def _frequent_words(labels: Iterable[str]) -> dict[str, int]:
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


_ROLES = ("free-text", "good-text", "bad-text", "forced-text", "ink2")
_SIZES = (44.0, 36.0, 30.0)
"""Font sizes tried for the most frequent word, in pixels; the first one that leaves room for enough words is used."""
_ENOUGH = 60
_SMALLEST = 9.0
_TOP = 22.0  # pixels for the title
_LINE = 1.0  # height of a word's box, relative to its font size
_ASCENT = 0.77  # part of the box above the baseline
_GAP = 3.0  # pixels between words of a line, which would read as one
_TURN, _STEP = 0.35, 3.0
"""Radians between two tries, and pixels between two turns of the spiral."""

_WIDTHS = {**dict.fromkeys("iljI.,:;'’|!()[]", 0.3), **dict.fromkeys("frt-–/ ", 0.4), **dict.fromkeys("mwMW@%", 0.92)}
"""Width of a bold sans-serif letter relative to its size; _CAPITAL and _LETTER for others, 1 for full-width ones."""
_CAPITAL, _LETTER = 0.7, 0.6


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float


def word_cloud(title: str, counts: Mapping[str, int], *, width: float = 400, height: float = 260) -> Drawing:
    """The most frequent words for which there is room, around the most frequent one; their area grows with the count.

    The layout is deterministic: each word takes the first free position on a spiral. The PyPI package wordcloud
    would need matplotlib and Pillow for the same result, with colours and fonts that differ from those of the pages.

    Args:
        counts: Word or label -> number of occurrences.
    """
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    for largest in _SIZES:
        placed = _placed(ordered, largest, width, height)
        if len(placed) >= min(_ENOUGH, len(ordered)):
            break
    marks: list[Mark] = [text(0, 14, title, size=13, fill="ink", bold=True)]
    for index, ((word, count), size, box) in enumerate(placed):
        x, y = (box.left + box.right) / 2, box.top + size * _ASCENT
        role, tooltip = _ROLES[index % len(_ROLES)], f"{word}: {count:,}"
        mark = text(x, y, word, size=size, fill=role, anchor="middle", bold=True, tooltip=tooltip)
        # Fonts differ in width by a fifth, so letters are fitted to the reserved width.
        fitted = (("textLength", round(_wide(word, size), 1)), ("lengthAdjust", "spacingAndGlyphs"))
        marks.append(replace(mark, attributes=(*mark.attributes, *fitted)))
    described = "; ".join(f"{word} {count:,}" for (word, count), _, _ in placed)
    return Drawing(width, height, f"{title}: {described}", tuple(marks))


def _placed(
    ordered: Sequence[tuple[str, int]], largest: float, width: float, height: float
) -> list[tuple[tuple[str, int], float, _Box]]:
    """Words with their counts, sizes and boxes."""
    most = ordered[0][1] if ordered else 1
    # Long words must fit even if they are the most frequent.
    largest = min([largest, *(0.8 * width / _wide(word, 1) * math.sqrt(most / count) for word, count in ordered)])
    found: list[tuple[tuple[str, int], float, _Box]] = []
    for word, count in ordered:
        size = round(max(_SMALLEST, largest * math.sqrt(count / most)), 1)
        box = _place(_wide(word, size), size * _LINE, [box for _, _, box in found], width, height)
        if box:
            found.append(((word, count), size, box))
    return found


def _place(wide: float, high: float, boxes: Sequence[_Box], width: float, height: float) -> _Box | None:
    """First free position on a spiral with the proportions of the drawing; None if the word does not fit."""
    centres = _spiral(width, height)
    left, top = centres[:, 0] - wide / 2, centres[:, 1] - high / 2
    inside = (left >= 0) & (left + wide <= width) & (top >= _TOP) & (top + high <= height)
    left, top = left[inside], top[inside]
    for box in boxes:
        beside = (left >= box.right + _GAP) | (box.left >= left + wide + _GAP)
        free = beside | (top >= box.bottom) | (box.top >= top + high)
        left, top = left[free], top[free]
    if not left.size:
        return None
    x, y = float(left[0]), float(top[0])
    return _Box(x, y, x + wide, y + high)


@functools.cache
def _spiral(width: float, height: float) -> np.ndarray:
    """Points of the spiral from the centre outwards, (points, 2) in pixels."""
    flatness = (height - _TOP) / width
    angles = [turn * _TURN for turn in range(int(width / _STEP * 2 * math.pi / _TURN))]
    radii = [_STEP * angle / (2 * math.pi) for angle in angles]
    return np.array(
        [
            (width / 2 + radius * math.cos(angle), (_TOP + height) / 2 + radius * flatness * math.sin(angle))
            for angle, radius in zip(angles, radii, strict=True)
        ]
    )


def _wide(word: str, size: float) -> float:
    return size * sum(_width_of(letter) for letter in word)


def _width_of(letter: str) -> float:
    if ord(letter) > 0x2E80:
        return 1.0
    return _WIDTHS.get(letter, _CAPITAL if letter.isupper() else _LETTER)
