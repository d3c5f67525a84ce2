"""Hand-made dumps in Wikidata's JSON format, with small functions for entities, statements and snaks."""

from __future__ import annotations

import bz2
import datetime
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import zstandard
from kgedit.loaders.wikidata_json import JsonParser

from kgedit.store.builds import Load
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile

Json = dict[str, Any]

COMPRESSIONS = {
    ".json": bytes,
    ".json.gz": partial(gzip.compress, mtime=0),
    ".json.bz2": bz2.compress,
    ".json.zst": zstandard.ZstdCompressor().compress,
}


def entity_value(entity_id: str) -> Json:
    kind = {"Q": "item", "P": "property", "L": "lexeme"}[entity_id[0]]
    value = {"entity-type": kind, "numeric-id": int(entity_id[1:]), "id": entity_id}
    return {"type": "wikibase-entityid", "value": value}


def text_value(text: str) -> Json:
    return {"type": "string", "value": text}


def time_value(text: str, precision: int, calendar: str = "Q1985727") -> Json:
    model = f"http://www.wikidata.org/entity/{calendar}"
    value = {"time": text, "timezone": 0, "before": 0, "after": 0, "precision": precision, "calendarmodel": model}
    return {"type": "time", "value": value}


def quantity_value(amount: str, unit: str = "1", **bounds: str) -> Json:
    return {"type": "quantity", "value": {"amount": amount, "unit": unit, **bounds}}


def snak(property_id: str, value: Json | str, datatype: str | None = None) -> Json:
    """A snak with a value, or of type "somevalue" or "novalue"."""
    if isinstance(value, str):
        return {"snaktype": value, "property": property_id}
    return {"snaktype": "value", "property": property_id, "datavalue": value} | (
        {"datatype": datatype} if datatype else {}
    )


def statement(
    main: Json, *qualifiers: Json, rank: str = "normal", statement_id: str | None = None, references: Sequence[Any] = ()
) -> Json:
    by_property: dict[str, list[Json]] = {}
    for qualifier in qualifiers:
        by_property.setdefault(qualifier["property"], []).append(qualifier)
    made: Json = {"mainsnak": main, "type": "statement", "rank": rank, "references": list(references)}
    if statement_id is not None:
        made["id"] = statement_id
    return made | ({"qualifiers": by_property} if by_property else {})


def entity(entity_id: str, *statements: Json, label: str | None = None, **more: Any) -> Json:
    """An item or property. A statement without an id gets one derived from its content, which is therefore stable."""
    claims: dict[str, list[Json]] = {}
    for number, made in enumerate(statements):
        claims.setdefault(made["mainsnak"]["property"], []).append({"id": f"{entity_id}$S{number}"} | made)
    kind = {"P": "property", "L": "lexeme"}.get(entity_id[0], "item")
    labels = {} if label is None else {"en": {"language": "en", "value": label}}
    return {"type": kind, "id": entity_id, "labels": labels, "claims": claims} | more


def lines(entities: Iterable[Mapping[str, Any]]) -> bytes:
    """A whole dump: an array with one entity per line."""
    return b"[\n" + b",\n".join(json.dumps(one, ensure_ascii=False).encode() for one in entities) + b"\n]\n"


def write_dump(path: Path, content: bytes | Iterable[Mapping[str, Any]]) -> Path:
    """Write a dump, compressed according to its name."""
    text = content if isinstance(content, bytes) else lines(content)
    suffix = next(suffix for suffix in sorted(COMPRESSIONS, key=len, reverse=True) if path.name.endswith(suffix))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(COMPRESSIONS[suffix](text))
    return path


def load_of(date: str, **changes: Any) -> Load:
    """The order of `kgedit load-dump` with its default options."""
    options: Json = {
        "date": datetime.date.fromisoformat(date),
        "loader": "wikidata_json",
        "loader_version": JsonParser.version,
        "make_loader": partial(JsonParser, LoaderOptions()),
        "options": {"languages": ["en", "mul"], "wiki": "enwiki"},
        "limit": None,
        "redirects": None,
        "bad_lines": JsonParser.bad_lines,
        "bad_statements": JsonParser.bad_statements,
        "notes": JsonParser.notes,
        "max_error_rate": 0.01,
    }
    return Load(**(options | changes))


def load(
    home: Path,
    dump: Path,
    date: str,
    *,
    workers: int = 1,
    overwrite: bool = False,
    block_bytes: int = 1 << 20,
    **changes: Any,
) -> Snapshot:
    """Load a dump into a store."""
    source = DumpFile(dump, block_bytes)
    return ingest(
        home,
        load_of(date, **changes),
        source,
        workers=workers,
        overwrite=overwrite,
        progress=lambda done, counted: None,
    )


def hashes(folder: Path) -> dict[str, str]:
    """Hashes of all files under a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
