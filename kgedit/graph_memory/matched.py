"""Finds facts with the relation matcher: which name, which relations from it, and whether anything is asked at all.

Every name in the text is masked in turn, and the matcher reads the windows around it. A path scores as probable as its
relations are; paths back from a value ("Is Merkel still chancellor?") compete with paths from a subject. A gate, fitted
on everyday questions, decides by the best path and by how its name is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kgedit.graph_memory.facts import FactTable
from kgedit.graph_memory.gate import MatchEvidence
from kgedit.graph_memory.matching import BACK, NOTHING, OTHER, TextReading
from kgedit.graph_memory.other_names import BACK_FROM, titles
from kgedit.graph_memory.retrieval import RankedWalk, Search, Walk
from kgedit.wording.name_index import Mention

_THROUGH = "P1308"
"""Officeholder: "the chancellor's wife" names the office only, so the step to its holder is not worded."""
_MOST_BACK = 12
"""A value of more rows than this is too common to lead back from."""
_UNLIKELY, _ABSENT = -6.0, -4.0
"""Lower bounds of features (logarithms). Smaller values carry no further information."""
_BEFORE = re.compile(r"(\w+)[\s-]+$")
_AFTER = re.compile(r"^[\s-]+(\w+)")
_ASKS = re.compile(
    r"(?:^|[,;:.!–—-]\s*|\b(?:and|so|but|of|to|in|for|at) )(?:who|whom|whose|what|which|where|how)\b"
    r"|\b(?:who|what)['’]?s\b|\b(?:tell|give|name|list|find|look|remind|say|state|know|need|want|please|kindly|provide"
    r"|indicate|ask|asks|asking|wonder|learn|out|right|correct|true|think|sure|certain|read|heard|believe|notes?)\b",
    re.IGNORECASE,
)
"""Questions within a sentence, words of requests, and of statements to confirm."""
_PAST_EVENT = re.compile(
    r"\b(?:was|were|had|did|led|ran|headed|governed|ruled|reigned|coached|managed|owned)\b[^.?!]*?\b(?:during|throughout"
    r"|when (?!was|were|did|is)|while|under (?:the|king|queen)|at the (?:time|start|end|beginning|outbreak|height) of"
    r"|back when|in the (?:days|age|time|era|years) of|(?:before|after|until) (?:it|the|they))\b",
    re.IGNORECASE,
)
_ABBREVIATION = re.compile(r"\b[A-Z]{2,}\b")


@dataclass(frozen=True, slots=True)
class NamedText:
    """A name in a text, with what the windows around it ask for.

    Attributes:
        mention: The name.
        text: The text, with the name where the mention says.
        readings: Readings of the windows; the sentence first.
        whole: TextReading of the whole text.
        together: Half-open range of the list of names that it is in, or else its own.
        qualified: Whether the name is followed by the country of its subject: "Vienna, Austria".
    """

    mention: Mention
    text: str
    readings: Sequence[TextReading]
    whole: TextReading
    together: tuple[int, int]
    qualified: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path from a name, with its score and walks.

    Attributes:
        named: The name.
        path: Ids of the relations; a single one with BACK for a path from a value.
        score: Logarithm of the probability, in the best window.
        reading: TextReading of that window.
        walks: Rows along each walk.
        evidence: Features of the best candidate of its name.
    """

    named: NamedText
    path: tuple[str, ...]
    score: float
    reading: TextReading
    walks: Sequence[Walk]
    evidence: MatchEvidence | None = None


def candidates_of(
    named: NamedText, walks: Mapping[tuple[int, ...], list[Walk]], facts: FactTable, relation_ids: Sequence[str]
) -> list[Candidate]:
    """Candidates from one name, best first: paths from its subjects, and rows that have it as a value."""
    found = []
    paths = {tuple(relation_ids[number] for number in numbers): several for numbers, several in walks.items()}
    held: dict[tuple[str, ...], set[str]] = {}
    for path in paths:
        held.setdefault(path[:-1], set()).add(path[-1])
    for path, several in paths.items():
        worded = path[1:] if len(path) == 2 and path[0] == _THROUGH else path
        if (best := _best_reading(named, worded, held[path[:-1]])) is not None:
            found.append(Candidate(named, path, *best, several))
    back: dict[str, list[Walk]] = {}
    for subject in named.mention.subjects:
        rows = facts.rows_with(subject)
        for row in rows if len(rows) <= _MOST_BACK else ():
            name = relation_ids[int(facts.relations_of(np.array([row]))[0])]
            if name in BACK_FROM:
                back.setdefault(name, []).append((row,))
    for name, several in back.items():
        asked = "P6" if name == _THROUGH else name
        if (best := _best_reading(named, (BACK + asked,))) is not None:
            found.append(Candidate(named, (BACK + name,), *best, several))
    return sorted(found, key=lambda each: (-each.score, len(each.path), each.path))


def _best_reading(named: NamedText, path: Sequence[str], held: Container[str] = ()) -> tuple[float, TextReading] | None:
    readings = enumerate(named.readings)
    scored = [(score, place) for place, each in readings if (score := each.score(path, held)) is not None]
    if not scored:
        return None
    score, place = max(scored, key=lambda one: (one[0], -one[1]))
    return score, named.readings[place]


def evidence_of(best: Candidate, others: Sequence[Candidate]) -> MatchEvidence:
    """Evidence for the best candidate; `others` are all candidates of its name."""
    mention, text, reading = best.named.mention, best.named.text, best.reading
    written = text[mention.start : mention.end]
    names = reading.matcher.asked
    # Those of the subject that the path ends at: a club has no mayor because its country has a head of government.
    held = {each.path[-1] for each in others if each.path[:-1] == best.path[:-1]} & names.keys()
    mass = sum(math.exp(reading.asked[names[name]]) for name in sorted(held))
    qualified = best.named.qualified
    odd = reading.unexplained(best.path, qualified=qualified)
    first = best.named.readings[0]
    sentence = odd if first is reading else first.unexplained(best.path, qualified=qualified)
    beside = odd.leading + odd.after + odd.asking + max(odd.names, sentence.names) > 0
    elsewhere = float(min(3, max(odd.elsewhere, sentence.elsewhere)))
    return MatchEvidence(
        score=max(best.score, _UNLIKELY),
        nothing=max(reading.asked[names[NOTHING]], _ABSENT),
        other=max(reading.asked[names[OTHER]], _ABSENT),
        whole=max(best.named.whole.asked[names[NOTHING]], _ABSENT),
        held=math.log(mass + math.exp(_ABSENT)),
        two_hops=float(len(best.path) > 1 and best.path[0] != _THROUGH),
        back=float(best.path[0].startswith(BACK)),
        derived=float(mention.derived),
        misspelt=float(mention.misspelt),
        nested=float(mention.nested),
        continued=float(_is_continued(text, mention)),
        small=float(is_written_small(text, mention)),
        words=float(min(3, len(written.split()))),
        odd_leading=float(min(2, odd.leading)),
        odd_after=float(min(2, odd.after)),
        odd_owned=float(odd.owned),
        odd_asking=float(min(1, odd.asking)),
        odd_elsewhere=elsewhere,
        odd_names=float(min(2, max(odd.names, sentence.names))),
        odd_any=float(beside),
        odd_style=elsewhere * beside,
        stated=float(_is_stated(text)),
        past_event=float(_PAST_EVENT.search(text) is not None),
    )


def _is_stated(text: str) -> bool:
    """Whether a text is written as a statement: it ends with a full stop, and nothing in it asks."""
    return text.rstrip().endswith((".", "!")) and "?" not in text and _ASKS.search(text) is None


def is_written_small(text: str, mention: Mention) -> bool:
    """Whether a name is in lower case in a text that has capital letters."""
    return text[mention.start : mention.end].islower() and _has_capitals(text)


def _has_capitals(text: str) -> bool:
    """Whether a text has capital letters besides those of abbreviations: "nepal PM" has none."""
    plain = _ABBREVIATION.sub("", text)
    return plain != plain.lower()


def _is_continued(text: str, mention: Mention) -> bool:
    """Whether a capitalized word next to a name may belong to a longer name; the first word of a text may not."""
    before, after = _BEFORE.search(text[: mention.start]), _AFTER.match(text[mention.end :])
    starts = before is not None and not text[: before.start()].strip()
    capital = [found.group(1) for found in (None if starts else before, after) if found is not None]
    return any(word[0].isupper() and not word.isupper() and word.lower() not in titles() for word in capital)


def selected(
    ranked: Sequence[tuple[Candidate, float]], search: Search, facts: FactTable, near: float
) -> list[RankedWalk]:
    """Walks of the best candidate of each name that asks for the same as the best one, or is in a list with it.

    Args:
        ranked: The best candidates of each name with their probabilities, best first.
        search: Search options.
        facts: Facts of the memory.
        near: Candidates of the same name at most this much less probable, as a logarithm, are selected too.
    """
    best, most = ranked[0]
    found: list[RankedWalk] = []
    taken: dict[Mention, Candidate] = {}
    for candidate, probability in ranked:
        mention = candidate.named.mention
        if first := taken.get(mention):
            is_asked = candidate.score >= first.score - near
        elif candidate is best:
            is_asked = True
        else:
            listed = candidate.named.together == best.named.together
            least = search.gate if listed else max(search.gate, most / 4)
            is_asked = (
                probability >= least
                and (listed or candidate.path[-1] == best.path[-1])
                and not any(mention.start < each.end and each.start < mention.end for each in taken)
            )
        if is_asked:
            taken.setdefault(mention, candidate)
            score = math.exp(candidate.score)
            found += [RankedWalk(score, max(facts.learned(row) for row in walk), walk) for walk in candidate.walks]
    return found
