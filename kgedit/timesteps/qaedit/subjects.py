"""Subject of a question: a name in the store, or a span found by rules.

Wikidata has hundreds of millions of names, of which a dataset of questions contains few. So the store's names are first
joined with the questions' runs of words, by hash, and only candidates become a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.qaedit.spans import Span, find_span
from kgedit.timesteps.qaedit.words import english_words, tokens_of
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
    with TemporaryDirectory() as spill, closing(open_engine(Path(spill))) as engine:
        engine.register("questions", pa.table({"question": questions}))
        return engine.sql(query).to_arrow_table()
