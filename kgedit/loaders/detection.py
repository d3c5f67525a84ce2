"""Detects the format of a dump from its content. Names are unreliable: dumps are renamed, recompressed and cut.

Also recognises formats that cannot be read, so that the message can give instructions.
"""

from __future__ import annotations

import datetime
import re
from functools import partial
from pathlib import Path

from kgedit.errors import SourceError
from kgedit.loaders import LOADERS
from kgedit.loaders.rdf_text import TURTLE, document_form
from kgedit.store.builds import Load
from kgedit.store.framing import without_mark
from kgedit.store.schemas import LoaderOptions
from kgedit.store.sources import DumpFile, is_page

_HEAD = 8 << 20
"""Bytes that contain a statement in a full RDF dump: the labels of its first entity alone can take a megabyte."""

_NTRIPLES = re.compile(rb"(?:\s*#[^\n]*\n)*\s*(?:<[^<>\s]+>|_:\S+) <[^<>\s]+> \S")
_FULL = re.compile(rb"/entity/statement/|\b(?:wds|s):[QPLqpl]\d+-")
_TRUTHY = re.compile(rb"/prop/direct/|\bwdt:P\d")
_PAGES = re.compile(rb"\s*(?:<\?xml[^>]*>)?\s*<(?:mediawiki|page)\b")


def checked_format(source: DumpFile, wanted: str | None) -> str:
    """Name of the loader for a dump.

    Args:
        source: The dump.
        wanted: Name given by the user, or None.

    Raises:
        UnknownNameError: if there is no loader of that name.
        SourceError: if the content has another format, or one that cannot be read.
    """
    if wanted is not None and wanted not in LOADERS:
        LOADERS[wanted]
    head = source.head(_HEAD)
    if is_page(head):
        raise source.page()
    found = format_of(head)
    if wanted is None:
        reason = _not_read(head)
        if reason is not None:
            raise SourceError(f"{source.path} {reason}")
        return found or "wikidata_json"
    if found is not None and wanted in _CERTAIN and found != wanted:
        raise SourceError(
            f"{source.path} looks like {found}, not {wanted}. Give --source-format {found}, or leave it out."
        )
    return wanted


_CERTAIN = ("wikidata_json", "wikidata_rdf", "wikidata_truthy", "wikidata_xml", "kgtk")
"""Formats that cannot be mistaken for each other."""


def format_of(head: bytes) -> str | None:
    """Loader for a text that begins like this; None if it is not recognised."""
    text = without_mark(head)
    if _is_rdf(text):
        if _FULL.search(text):
            return "wikidata_rdf"
        return "wikidata_truthy" if _TRUTHY.search(text) else None
    if text.lstrip()[:1] in (b"[", b"{"):
        return "wikidata_json"
    if _PAGES.match(text):
        return "wikidata_xml"
    columns = text.split(b"\n", 1)[0].rstrip(b"\r").split(b"\t")
    return "kgtk" if {b"node1", b"label", b"node2"} <= set(columns) else None


def _is_rdf(text: bytes) -> bool:
    return bool(_NTRIPLES.match(text) or TURTLE.match(text) or document_form(text))


def _not_read(head: bytes) -> str | None:
    """Message for a recognised format that cannot be read."""
    text = without_mark(head)
    if format_of(head) is None and _is_rdf(text):
        return (
            "is RDF in whose beginning no statement of Wikidata is found. If it is one of Wikidata's dumps, give "
            "--source-format wikidata_rdf (full) or --source-format wikidata_truthy."
        )
    return None


def load_with(
    name: str,
    options: LoaderOptions,
    *,
    date: datetime.date,
    limit: int | None = None,
    redirects: Path | None = None,
    max_error_rate: float = 0.01,
    slice_of: str | None = None,
) -> Load:
    """Create the options of a load with a loader of the registry.

    Raises:
        UnknownNameError: if there is no such loader.
    """
    loader = LOADERS[name]
    return Load(
        date=date,
        loader=name,
        loader_version=loader.version,
        make_loader=partial(loader, options),
        options={"languages": list(options.languages), "wiki": options.wiki},
        limit=limit,
        redirects=redirects,
        bad_lines=loader.bad_lines,
        bad_statements=loader.bad_statements,
        notes=loader.notes,
        max_error_rate=max_error_rate,
        framing=loader.framing,
        lacks=loader.lacks,
        datatypes_by_property=loader.datatypes_by_property,
        slice_of=slice_of,
    )
