"""The names of a store's items that occur in questions: labels and aliases, found by one pass over each snapshot.

Wikidata has hundreds of millions of names and a set of questions mentions few of them. So the store's names are joined
with the questions' runs of words first, by hash, and only what may occur becomes a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from kgedit.names.index import NameIndex
from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot

_LONGEST = 12
"""Words of a run; a longer name is joined by its first twelve, and compared whole by the dictionary."""

_WORDS = r"string_split(trim(regexp_replace(strip_accents(lower({})), '[^\p{{L}}\p{{N}}_]+', ' ', 'g')), ' ')"


@dataclass(frozen=True, slots=True)
class Names:
    """A dictionary of names.

    Attributes:
        index: Name -> numbers of those that bear it.
        ids: By number.
    """

    index: NameIndex
    ids: tuple[str, ...]

    def only_bearer(self, subjects: Sequence[int]) -> str:
        """The id of a name's bearer; "" where it has several."""
        return self.ids[subjects[0]] if len(subjects) == 1 else ""


def read_names(snapshots: Sequence[Snapshot], questions: pa.ChunkedArray) -> Names:
    """Names of items that occur in questions as whole words; some that do not are among them.

    Args:
        snapshots: Whose labels and aliases; redirects have none.
        questions: Texts.
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
        """  # noqa: S608 - our own names and paths
    with TemporaryDirectory() as spill, closing(open_engine(Path(spill))) as engine:
        engine.register("questions", pa.table({"question": questions}))
        return engine.sql(query).to_arrow_table()
