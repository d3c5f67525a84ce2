"""Word cloud: words sized by frequency, around the most frequent one (WikiBigEdit, figure 8).

The layout is deterministic: each word takes the first free position on a spiral. The PyPI package wordcloud would need
matplotlib and Pillow for the same result, with colours and fonts that differ from those of the pages.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgedit.pages.marks import Drawing, Mark, text

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
    """The most frequent words for which there is room; the area of a word grows with its count.

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
