"""The tables of a timestep: their schemas, the facts and answers in their rows, and their files.

Many facts of Wikidata are out of date because no one entered their end. Among equally suitable facts for a locality
probe, those with evidence are preferred. References are not stored, so the evidence is dates and revisions. Files are
written and read in batches, so that no table has to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.checksums import decoding, sha256_of
from kgedit.records.cases import Fact

_FACT = [
    ("subject", pa.string()),
    ("subject_label", pa.string()),
    ("property", pa.string()),
    ("property_label", pa.string()),
    ("object", pa.string()),
    ("object_label", pa.string()),
]
FACT = tuple(name for name, _ in _FACT)
"""Columns of a fact with its labels."""

_STRINGS = pa.list_(pa.string())

CASES = pa.schema(
    [
        ("case_id", pa.string()),
        ("tag", pa.string()),
        ("scenario", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("statement_ids", _STRINGS),
        ("start_time", pa.string()),
        ("point_in_time", pa.string()),
        ("as_of", pa.string()),
        ("kind", pa.string()),
        ("kind_confidence", pa.float64()),
        ("kind_signals", _STRINGS),
        ("old_objects", _STRINGS),
        ("old_answers", _STRINGS),
        ("question", pa.string()),
        ("rephrase", pa.string()),
        ("persona", pa.string()),
        ("personas", pa.string()),
        ("cloze", pa.string()),
        ("rephrases", _STRINGS),
        ("clozes", _STRINGS),
        ("statement", pa.string()),
        ("name", pa.string()),
        ("subject_class", pa.string()),
        ("phrase", pa.string()),
        ("answer", pa.string()),
        ("answer_type", pa.string()),
        ("label_changed", pa.bool_()),
        ("template", pa.string()),
        ("subject_aliases", _STRINGS),
        ("subject_description", pa.string()),
        ("subject_views", pa.int64()),
        ("object_views", pa.int64()),
        ("subject_count", pa.int64()),
        ("object_count", pa.int64()),
    ]
)
"""cases.parquet: one row per edit, ordered by case_id.

No question fails a final filter (kgedit.timesteps.filters): personas is null if it would, rephrases excludes such
texts, and rephrase is the first remaining one, or null; clozes exclude texts that give the answer away (the first is
the cloze used for editing, the others test whether the edit generalizes). statement is the update as a sentence
(null in the other profile), name the subject as used in a sentence ("the Netherlands"), phrase the template's noun
phrase, answer the target of the edit (the label of the object), answer_type its type ("person"; one of
kgedit.wording.grammar.ANSWERS). Timesteps of earlier versions have the type in answer, and no answer_type. start_time
and point_in_time are qualifiers of the statement, at their precision ("2021", "2021-12"); as_of is the day of the newer
snapshot, on which the fact holds. kind, its confidence in [0, 1] and its signals are those of
kgedit.timesteps.kinds. object_aliases excludes those in subject_label. subject_aliases and subject_description are
those of the newer snapshot. scenario is one of kgedit.records.cases.SCENARIOS. These three are null in timesteps of
older versions of kgedit. The last four columns are those of kgedit.records.cases.Specificity; null without page views
or counts, or if these do not contain the entity.
"""

LOCALITY = pa.schema(
    [
        ("case_id", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("similarity", pa.float64()),
        ("basis", pa.string()),
        ("question", pa.string()),
        ("evidence", pa.string()),
    ]
)
"""locality.parquet: at most one fact per case that its edit should not change, usually an unchanged one
(kgedit.timesteps.locality).

basis is the source of similarity: "graph" (similarity is then the rarity of shared facts) or "label" (labels of both
subjects, 0 to 1), with the same relation; "relation": the relation is similar, too, not the same; "changed": the fact
became true in the window itself, and is not a case; "nearest": by kgedit.timesteps.wikifactdiff. evidence that the fact
holds on the day of the newer snapshot: "dated" or "edited" (kgedit.timesteps.tables); null without evidence, and in
timesteps of older versions of kgedit.
"""

TWO_HOPS = pa.schema(
    [
        ("case_id", pa.string()),
        ("second_case_id", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("chosen", pa.bool_()),
        ("question", pa.string()),
        ("rephrases", _STRINGS),
    ]
)
"""two_hops.parquet: the second hop of every chain that starts at a case; one per case is `chosen` for its probe.

rephrases: paraphrases of the question; none of them names the entity in the middle or the answer.
"""

CHAINS = pa.schema(
    [
        ("case_id", pa.string()),
        ("hops", pa.int64()),
        ("position", pa.int64()),
        (
            "facts",
            pa.list_(
                pa.struct(
                    [*_FACT, ("object_aliases", _STRINGS), ("question", pa.string()), ("cloze", pa.string())],
                )
            ),
        ),
        ("object_label", pa.string()),
        ("object_aliases", _STRINGS),
        ("old_answers", _STRINGS),
        ("question", pa.string()),
        ("rephrases", _STRINGS),
    ]
)
"""chains.parquet, only with --hops above 2: a chain of facts through a case, at most one of each length.

facts: all facts in order, each with its own question; the edit is number `position`, from 1, and the others are in
both snapshots. object_label and object_aliases are those of the last fact. old_answers: where the replaced object leads
in the older snapshot.
"""

CROSSLINGUAL = pa.schema(
    [
        ("case_id", pa.string()),
        ("language", pa.string()),
        *_FACT,
        ("object_aliases", _STRINGS),
        ("old_answers", _STRINGS),
        ("question", pa.string()),
    ]
)
"""crosslingual.parquet, only with --crosslingual: the question about an edit in another language.

Labels, aliases and old_answers are in that language, or in the fallback of its snapshots. At most one row per case.
"""

KNOWN_FACTS = pa.schema(
    [
        *_FACT,
        ("question", pa.string()),
        ("rephrase", pa.string()),
        ("cloze", pa.string()),
    ]
)
"""known_facts.parquet: facts of the older snapshot with questions (old answers, locality, others of the relations)."""

CHANGED = "changed"
"""Basis of a locality probe that became true in the window."""

TABLES = {"cases": CASES, "locality": LOCALITY, "two_hops": TWO_HOPS, "known_facts": KNOWN_FACTS}

OPTIONAL_TABLES = {"chains": CHAINS, "crosslingual": CROSSLINGUAL}
"""Tables that only some exports write."""


class TimestepTables(Protocol):
    """Folder, manifest and tables of a timestep, as kgedit.timesteps.timestep.Timestep has them."""

    @property
    def folder(self) -> Path:
        """Folder with the files."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Content of timestep.json."""

    def table(self, name: str) -> pa.Table:
        """Read one of TABLES."""


def fact_in(row: dict[str, Any]) -> Fact:
    """Fact of a row that has the columns of FACT."""
    return Fact(*(row[name] for name in FACT))


def answers_in(row: dict[str, Any]) -> tuple[str, ...]:
    """Label and aliases of the object of a row."""
    return tuple(dict.fromkeys([row["object_label"], *(row["object_aliases"] or [])]))


DATED = "dated"
"""The statement has a start or a point in time, which someone must have looked up."""

EDITED = "edited"
"""The item was edited between the snapshots, and the fact was kept."""

EVIDENCE_RANK = f"CASE evidence WHEN '{DATED}' THEN 2 WHEN '{EDITED}' THEN 1 ELSE 0 END"
"""SQL of a rank; higher is better."""

ALIKE = 1
"""Number of decimals to which similarities are rounded; facts of equal rounded similarity are equally suitable."""


def find_evidence(facts: str) -> str:
    """SQL of the evidence of facts, with columns subject, property, object and evidence (null without evidence).

    Args:
        facts: A table or view with columns subject, property and object, on a connection with the views new_facts,
            old_entities and new_entities.
    """
    return f"""
        SELECT f.subject, f.property, f.object,
               CASE WHEN f.dated THEN '{DATED}' WHEN o.lastrevid <> n.lastrevid THEN '{EDITED}' END AS evidence
        FROM (SELECT subject, property, object, bool_or(start_first IS NOT NULL OR point_first IS NOT NULL) AS dated
              FROM new_facts SEMI JOIN {facts} USING (subject, property, object) GROUP BY ALL) f
        LEFT JOIN old_entities o ON o.id = f.subject LEFT JOIN new_entities n ON n.id = f.subject
    """


ROWS_IN_GROUP = 16_384
"""Rows that are held before they are written: 30 MB of cases. Readers skip groups by the range of their ids."""


class TableFile:
    """A Parquet file that grows by batches of rows; a context manager.

    Its bytes do not depend on the sizes of the batches.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._waiting = schema.empty_table()
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Append rows; further columns than those of the schema are left out."""
        self._waiting = pa.concat_tables([self._waiting, rows.select(self._schema.names).cast(self._schema)])
        while self._waiting.num_rows >= ROWS_IN_GROUP:
            self._write(self._waiting.slice(0, ROWS_IN_GROUP))
            self._waiting = self._waiting.slice(ROWS_IN_GROUP)

    def finish(self) -> dict[str, Any]:
        """Write what is left and close the file; returns its entry in the manifest."""
        if self._waiting.num_rows or not self._rows:
            self._write(self._waiting)
        self._waiting = self._schema.empty_table()
        self._writer.close()
        return {"rows": self._rows, "sha256": sha256_of(self._path)}

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()

    def _write(self, rows: pa.Table) -> None:
        # The limits of pages depend on chunks, and these on the batches.
        self._writer.write_table(rows.combine_chunks(), row_group_size=ROWS_IN_GROUP)
        self._rows += rows.num_rows


def write_table(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> dict[str, Any]:
    """Write a table from its parts, in order; returns its entry in the manifest."""
    with TableFile(path, schema) as file:
        for part in parts:
            file.add(part)
        return file.finish()


Rows = list[dict[str, Any]]


def read_parts(path: Path, schema: pa.Schema, *, fix: str) -> Iterator[Rows]:
    """Yield the rows of a file, in order, in lists of at most _ROWS_AT_ONCE.

    Args:
        path: The file.
        schema: Its schema; columns that an earlier version of kgedit did not write are None.
        fix: What to do if it is damaged, as a sentence for the message.

    Raises:
        DamagedFileError: if it cannot be decoded.
    """
    # A scan of a data set would read on until a gigabyte waits, whatever its limits.
    with decoding(path, fix=fix):
        file = pq.ParquetFile(path)
    with file:
        stored = [name for name in schema.names if name in file.schema_arrow.names]
        missing = dict.fromkeys(set(schema.names).difference(stored))
        batches = file.iter_batches(_ROWS_AT_ONCE, columns=stored)
        while True:
            with decoding(path, fix=fix):
                batch = next(batches, None)
            if batch is None:
                return
            yield [missing | row for row in batch.to_pylist()]


_ROWS_AT_ONCE = 2_000
"""Rows that are read at once; as Python objects, a case takes some kilobytes with its probes."""
