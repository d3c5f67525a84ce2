"""Columns of the snapshot store. Loaders yield batches with the first two schemas; facts follow from the claims.

``start``, ``end`` and ``point`` are the statement's P580, P582 and P585, each in four columns: text at its
precision, the precision (-1: exists, value unknown), and the half-open interval [first, until) of day numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa

from kgedit.store.framing import Framing

TIME_FIELDS = ("start", "end", "point")


def _time(name: str) -> list[tuple[str, pa.DataType]]:
    return [
        (f"{name}_time", pa.string()),
        (f"{name}_precision", pa.int8()),
        (f"{name}_first", pa.int64()),
        (f"{name}_until", pa.int64()),
    ]


CLAIMS = pa.schema(
    [
        ("statement_id", pa.string()),
        ("subject", pa.string()),
        ("property", pa.string()),
        ("rank", pa.string()),
        ("snak", pa.string()),  # value, somevalue or novalue
        ("datatype", pa.string()),
        ("object", pa.string()),  # entity id; null for a literal
        ("value", pa.string()),  # canonical text of a literal; null for an entity
        ("unit", pa.string()),
        ("language", pa.string()),
        ("precision", pa.string()),
        ("calendar", pa.string()),
        *_time("start"),
        *_time("end"),
        *_time("point"),
        ("qualifier_properties", pa.list_(pa.string())),
        ("separators", pa.list_(pa.string())),
        ("version", pa.int64()),  # hash over rank, value with its bounds, and all qualifiers
    ]
)
"""One row per statement."""

CLAIMS_JUDGED = CLAIMS.append(pa.field("restricted", pa.bool_()))
"""Columns of claims of which is known whether a qualifier restricts them."""

CLAIMS_KEPT = CLAIMS_JUDGED.append(pa.field("place", pa.int64()))
"""Columns of a snapshot's claims. ``place`` identifies a claim in its snapshot: bucket * 2**32 + row in the file."""

ENTITIES = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.string()),  # item or property
        ("label", pa.string()),
        ("label_language", pa.string()),
        ("description", pa.string()),
        ("aliases", pa.list_(pa.string())),
        ("wiki_title", pa.string()),
        ("datatype", pa.string()),
        ("lastrevid", pa.int64()),
        ("redirect_target", pa.string()),  # set for redirects, whose other columns except id and kind are null
    ]
)
"""One row per entity of the dump, and one per redirect."""


FACTS = pa.schema(
    [
        ("subject", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),  # id of a term: an entity's own, or V... for a literal
        ("kind", pa.string()),  # of the object: item, property, value or other
        ("rank", pa.string()),
        ("statement_place", pa.int64()),  # place of the claim with these times
        ("statement_places", pa.list_(pa.int64())),  # of all claims, by statement id; null if there is only that one
        *_time("start"),
        *_time("end"),
        *_time("point"),
        ("value_type", pa.string()),  # of a literal: quantity, time, monolingualtext, globe-coordinate or string
        ("value", pa.string()),
        ("unit", pa.string()),
        ("language", pa.string()),
        ("precision", pa.string()),
        ("calendar", pa.string()),
    ]
)
"""One row per subject, property and object that is current on the day of the snapshot (kgedit.store.facts)."""


@dataclass(frozen=True, slots=True)
class LoaderOptions:
    """Options that determine what a loader reads of each entity.

    Attributes:
        languages: Label languages, in order of preference.
        wiki: Site whose article titles are kept ("enwiki").
    """

    languages: tuple[str, ...] = ("en", "mul")
    wiki: str = "enwiki"


WAITING = pa.schema([("text", pa.binary()), ("nodes", pa.list_(pa.string()))])
"""Statements that wait for values: text in the loader's format, and the names of the missing nodes."""

NODES = pa.schema([("node", pa.string()), ("text", pa.binary())])
"""Values by name, in the loader's format."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Parts of a block that depend on other blocks: RDF dumps describe a value node where it first occurs, if at all.

    After all blocks are parsed, each statement is parsed again, preceded by its missing nodes
    (kgedit.store.builds). Together these texts must form a block.

    Attributes:
        statements: Columns of WAITING.
        nodes: Columns of NODES, with all nodes that this block describes.
    """

    statements: pa.Table
    nodes: pa.Table


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows of one block, and counts of what was read, left out or noted.

    Attributes:
        claims: One row per statement, with the columns of CLAIMS. Rows of an entity are contiguous.
        entities: One row per entity, with the columns of ENTITIES.
        counts: "lines" are the texts that may be entities, "statements" those found in the entities that were read.
            Every other key is a reason for leaving a line or a statement out, or one of the loader's `notes`.
            lines = rows of entities + lines left out; statements = rows of claims + statements left out.
        waiting: Statements that are neither read nor left out yet; None in formats in which each entity is complete.
    """

    claims: pa.Table
    entities: pa.Table
    counts: Counter[str]
    waiting: Waiting | None = None


class Loader(Protocol):
    """Reads one source format: the contract of the classes in `kgedit.loaders.LOADERS`.

    Each worker process creates its own loader, which keeps no state between blocks, so that blocks can be parsed in any
    order. A loader that has the attribute `parses_in_threads`, and it is true, is shared by threads instead, as the
    compiled parser of JSON is, which does not hold Python's lock. A loader never fails on content: what it cannot read
    is left out and counted. The same block gives the same rows. docs/how-to/own-loader.md shows a complete loader.

    Attributes:
        source: Page that describes the format.
        licence: Licence of the content.
        version: Increased whenever the same dump would give other rows; part of a snapshot's identity.
        bad_lines: Reasons in `Parsed.counts` that make a line bad. A load fails if their share of all lines exceeds
            `--max-error-rate`. Lines left out on purpose (entities of other types) are counted under other reasons.
        bad_statements: Reasons that make a statement bad, with the same limit.
        notes: Counts of peculiarities that do not leave anything out.
        framing: Cuts the text into blocks of whole entities.
        lacks: Short names of parts of the JSON dump that the format lacks, for the manifests of snapshots and exports
            ("ranks").
        datatypes_by_property: Whether statements have no datatypes in this format and take those of their properties
            if the row has none.
    """

    source: ClassVar[str]
    licence: ClassVar[str]
    version: ClassVar[str]
    bad_lines: ClassVar[tuple[str, ...]]
    bad_statements: ClassVar[tuple[str, ...]]
    notes: ClassVar[tuple[str, ...]]
    framing: ClassVar[Framing]
    lacks: ClassVar[tuple[str, ...]]
    datatypes_by_property: ClassVar[bool]

    def __init__(self, options: LoaderOptions) -> None:
        """Prepare to parse; called in every worker process."""
        ...

    def parse(self, block: bytes) -> Parsed:
        """Parse a decompressed block of whole entities, as cut by `framing`."""
        ...
