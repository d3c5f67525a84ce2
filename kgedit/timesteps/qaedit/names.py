"""Names of a store's items that occur in questions: labels and aliases, found by one pass over each snapshot.

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

from kgedit.names.index import NameIndex
from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot

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
        """  # noqa: S608 - our own names and paths
    with TemporaryDirectory() as spill, closing(open_engine(Path(spill))) as engine:
        engine.register("questions", pa.table({"question": questions}))
        return engine.sql(query).to_arrow_table()
