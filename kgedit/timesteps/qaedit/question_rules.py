"""Subject and rephrasing of a question without a language model: by names in the store, and by rules of word order.

Wikidata has hundreds of millions of names, of which a dataset of questions contains few. So the store's names are first
joined with the questions' runs of words, by hash, and only candidates become a dictionary. A question without a name
has the span of a rule as its subject.

A rule of rephrasing may only move words: the new question must contain the subject verbatim, or the rule does not
apply. A question that no rule fits is framed, and marked as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from kgedit.resources import data_folder
from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.qaedit.spans import Span, english_words, find_span, tokens_of
from kgedit.wording.catalogues import read_catalogue, refuse
from kgedit.wording.name_index import Mention, NameIndex


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a question.

    Attributes:
        text: Text, verbatim from the question.
        rule: Rule that found it: "name", a rule of `spans`, or "model".
        entity: Id of the only item with that name; "" if unknown.
    """

    text: str
    rule: str
    entity: str = ""


class SubjectFinder:
    """Finds subjects.

    Args:
        names: Names of a store's items; None uses rules alone.
    """

    def __init__(self, names: Names | None = None) -> None:
        self._names = names
        self._words = english_words()

    def find(self, question: str) -> Subject | None:
        """Find the subject of a question in composed Unicode (NFC); None if neither a name nor a rule matches."""
        span = find_span(question, self._words)
        named = _named(span, self._mentions(question))
        if named is not None and self._names is not None:
            start, end, mention = named
            return Subject(question[start:end], "name", self._names.only_bearer(mention.subjects))
        if span is None:
            return None
        return Subject(question[span.start : span.end], span.rule)

    def _mentions(self, question: str) -> list[Mention]:
        """Names in a question that can be its subject: the longest ones, without common words."""
        if self._names is None:
            return []
        found = [mention for mention in self._names.index.find(question) if not mention.nested]
        return [mention for mention in found if self._can_be_subject(question[mention.start : mention.end])]

    def _can_be_subject(self, text: str) -> bool:
        words = self._words
        return any(
            token.is_word
            and not words.ends_phrase(token.lower)
            and token.lower not in words.role
            and token.lower not in words.measure
            and token.text not in words.adjective
            and token.text not in words.month
            and token.text not in words.weekday
            and not token.text[0].isdigit()
            for token in tokens_of(text)
        )


def _named(span: Span | None, mentions: list[Mention]) -> tuple[int, int, Mention] | None:
    """Choose a name as subject: one that contains the span found by rules, or any if they found none.

    Rules choose the subject, and names determine its boundaries: a store has most words of a question as names of
    something, but few of them are its subject.
    """
    if span is None:
        longest = max(mentions, key=lambda mention: (mention.end - mention.start, -mention.start), default=None)
        return None if longest is None else (longest.start, longest.end, longest)
    # Names are whole words, so quotation marks are not part of them.
    marks = 1 if span.rule == "quotation" else 0
    around = next((one for one in mentions if one.start <= span.start + marks and span.end - marks <= one.end), None)
    return None if around is None else (min(around.start, span.start), max(around.end, span.end), around)


_LONGEST = 12
"""Maximum number of words of a run; longer names are joined by their first twelve, and the dictionary compares all."""

_WORDS = r"string_split(trim(regexp_replace(strip_accents(lower({})), '[^\p{{L}}\p{{N}}_]+', ' ', 'g')), ' ')"


@dataclass(frozen=True, slots=True)
class Names:
    """A dictionary of names.

    Attributes:
        index: Name -> indexes of the items with that name.
        ids: Ids by index.
    """

    index: NameIndex
    ids: tuple[str, ...]

    def only_bearer(self, subjects: Sequence[int]) -> str:
        """Id of the only item with a name; "" if there are several."""
        return self.ids[subjects[0]] if len(subjects) == 1 else ""


def read_names(snapshots: Sequence[Snapshot], questions: pa.ChunkedArray) -> Names:
    """Read names of items that occur in questions as whole words; the result is a superset.

    Args:
        snapshots: Snapshots with labels and aliases; redirects have none.
        questions: Texts of the questions.
    """
    found = _joined(snapshots, questions)
    index = NameIndex()
    numbers: dict[str, int] = {}
    for name, entity in zip(found["name"].to_pylist(), found["id"].to_pylist(), strict=True):
        index.add(name, numbers.setdefault(entity, len(numbers)))
    return Names(index, tuple(numbers))


def _joined(snapshots: Sequence[Snapshot], questions: pa.ChunkedArray) -> pa.Table:
    files = ", ".join(literal(snapshot.entities) for snapshot in snapshots)
    query = f"""
        WITH asked AS (SELECT DISTINCT {_WORDS.format("question")} AS words FROM questions),
        starts AS (SELECT words, unnest(range(1, len(words) + 1)) AS start FROM asked),
        runs AS (
            SELECT DISTINCT hash(array_to_string(words[start:start + size - 1], ' ')) AS run
            FROM starts, range(1, {_LONGEST + 1}) AS sizes(size) WHERE start + size - 1 <= len(words)
        ),
        named AS (
            SELECT id, unnest(list_prepend(label, coalesce(aliases, []))) AS name
            FROM read_parquet([{files}]) WHERE kind = 'item' AND redirect_target IS NULL
        )
        SELECT DISTINCT name, id FROM named
        WHERE name IS NOT NULL AND name <> id
          AND hash(array_to_string(({_WORDS.format("name")})[1:{_LONGEST}], ' ')) IN (SELECT run FROM runs)
        ORDER BY name, length(id), id
        """
    with TemporaryDirectory() as spill, open_engine(Path(spill)) as engine:
        engine.register("questions", pa.table({"question": questions}))
        return engine.sql(query).to_arrow_table()


FRAME = "frame"
"""Rule of questions that no other rule fits: the same question after an introductory sentence, which tests little."""

_FIELD = re.compile(r"\{(?:(\w+):)?(\w+)\}")
_OPENERS = frozenset(
    ("The", "A", "An", "In", "On", "At", "From", "To", "For", "By", "With", "During", "After", "Before")
)
_SUBJECT = "\ua66e"
"""A letter that occurs in no question and replaces the subject, so that all patterns are compiled once."""

_LEADING = re.compile(r"(?:the|a|an) ", re.IGNORECASE)
_ARTICLE = r"(?:(?:the|a|an) )?"
_NOUN = r"(?!(?:is|was|are|were|has|had|have|did|does|do)\b)[\w'’.-]+"
_NOUNS = rf"(?:{_NOUN} ){{0,5}}{_NOUN}"


@dataclass(frozen=True, slots=True)
class Rephrasing:
    """A rephrased question.

    Attributes:
        text: The new question.
        rule: Its origin: a rule's name, FRAME, or "model".
    """

    text: str
    rule: str


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    when: re.Pattern[str]
    say: str


class Rephraser:
    """Rephrases questions.

    Args:
        catalogue: Rules, a frame and verbs, as in prompts/qaedit/rephrasings.yaml.
    """

    def __init__(self, catalogue: Mapping[str, Any]) -> None:
        listed = {name: "|".join(sorted(catalogue[name].split())) for name in ("verbs", "participles")}
        self._rules = [
            _Rule(rule["name"], _pattern(rule["when"], **listed), rule["say"]) for rule in catalogue["rules"]
        ]
        self._frame: str = catalogue["frame"]
        past = dict(catalogue["past"])
        self._doubled, self._adverbs = frozenset(past.pop("double")), frozenset(past.pop("adverbs"))
        self._past: Mapping[str, str] = past

    def rephrase(self, question: str, subject: str) -> Rephrasing:
        """Rephrase a question so that its answer stays the same.

        Args:
            question: Question that ends in a question mark.
            subject: Part of the question.
        """
        body = question.rstrip(" ?")
        # The article is not part of the subject: rules look for "the first", "the only".
        core = _LEADING.sub("", subject, count=1) if _LEADING.match(subject) else subject
        held = body.replace(core, _SUBJECT, 1)
        for rule in self._rules:
            found = rule.when.fullmatch(held)
            text = self._say(rule, found) if found else None
            if text and _SUBJECT in text and text.rstrip("?.").lower() != held.lower():
                whole = text.replace(_SUBJECT, core).replace(" ?", "?").replace("..", ".")
                whole = whole[:1].upper() + whole[1:]
                if subject in whole:
                    return Rephrasing(whole, rule.name)
        return Rephrasing(self._frame.replace("{question}", question), FRAME)

    def _say(self, rule: _Rule, found: re.Match[str]) -> str | None:
        """Text of a rule; None if a verb has no known past tense."""
        words = {name: text or "" for name, text in found.groupdict().items()}
        if any(words[name].lower() in self._adverbs for how, name in _FIELD.findall(rule.say) if how == "past"):
            return None
        text = _FIELD.sub(lambda field: self._word(field[1], words[field[2]]), rule.say)
        return text[:1].upper() + text[1:]

    def _word(self, how: str | None, text: str) -> str:
        if how == "past":
            return self.past_of(text)
        if how == "be":
            return "were" if text.lower().endswith("s") and not text.lower().endswith(("ss", "us", "is")) else "was"
        if how == "low":
            first = text.partition(" ")[0]
            return first.lower() + text[len(first) :] if first in _OPENERS else text
        if how == "own":
            return f"{text}'" if text.endswith("s") else f"{text}'s"
        return text

    def past_of(self, verb: str) -> str:
        """The past tense of a verb in its base form."""
        word = verb.lower()
        if word in self._past:
            return self._past[word]
        if word in self._past.values() or word.endswith("ed"):
            return word
        if word.endswith("e"):
            return f"{word}d"
        if word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
            return f"{word[:-1]}ied"
        return f"{word}{word[-1]}ed" if word in self._doubled else f"{word}ed"


@cache
def english_rephraser() -> Rephraser:
    """Rephraser with the shipped rules."""
    path = data_folder("prompts") / "qaedit" / "rephrasings.yaml"
    content = read_catalogue(path)
    refuse(path, _problems(content.get("rules") or []))
    return Rephraser(content)


def _problems(rules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Problems of rules, as text: an invalid expression, a slot without a group."""
    found = []
    for number, rule in enumerate(rules, start=1):
        name = rule.get("name") or f"rule {number}"
        if not all(isinstance(rule.get(key), str) for key in ("name", "when", "say")):
            found.append(f"{name}: needs name, when and say")
            continue
        try:
            groups = re.compile(
                rule["when"].replace("<S>", "x").replace("<V>", "x").replace("<N>", "x").replace("<P>", "x")
            ).groupindex
        except re.error as error:
            found.append(f"{name}: {error}")
            continue
        found += [f"{name}: no group '{slot}'" for _, slot in _FIELD.findall(rule["say"]) if slot not in groups]
    return found


def _pattern(when: str, *, verbs: str, participles: str) -> re.Pattern[str]:
    filled = when.replace("<S>", _ARTICLE + _SUBJECT).replace("<N>", _NOUNS).replace("<V>", f"(?:{verbs})")
    filled = filled.replace("<P>", rf"(?:(?:\w+ly|first|last|also) )?(?:\w+ed|{participles})\b")
    return re.compile(filled, re.IGNORECASE)
