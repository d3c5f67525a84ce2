"""Wikidata's truthy RDF dump: one triple per value of best rank, without qualifiers or references.

Dates have no precision and quantities no unit in this format. Both are left out and counted, because kgedit would have
to invent the precision or unit.
"""

from __future__ import annotations

from typing import ClassVar

from kgedit.loaders.rdf_blocks import RdfBlock, RdfEntity, RdfParser
from kgedit.store.rows import Statement
from kgedit.wikidata.ids import is_property_id
from kgedit.wikidata.snaks import Snak, UnreadableError, parse_term, snak_of

NO_PRECISION, NO_UNIT = "date without precision", "quantity without unit"
"""Reasons for intentionally leaving a value out."""


class TruthyParser(RdfParser):
    """Parses blocks of whole entities of the truthy dump; statement ids are built from subject, property and value."""

    source: ClassVar[str] = "https://www.mediawiki.org/wiki/Wikibase/Indexing/RDF_Dump_Format#Truthy_statements"
    version: ClassVar[str] = "2"
    lacks: ClassVar[tuple[str, ...]] = (
        "ranks",
        "qualifiers",
        "statement ids",
        "statements below the best rank",
        "dates",
        "quantities",
        "formulas as TeX",
        "sitelinks in some years' dumps",
        "URLs that are addresses of entities or of files on Commons",
    )

    def statements_of(self, block: RdfBlock, name: str, entity: RdfEntity) -> list[Statement]:  # noqa: ARG002 - as in the base
        """A statement of normal rank for each value."""
        made = []
        for property_id, token in entity.direct:
            reason = self._reason_to_leave_out(property_id, token)
            if reason is None:
                try:
                    made.append(Statement(_snak(property_id, token)))
                    continue
                except (UnreadableError, ValueError):
                    reason = "unreadable value"
            block.counts["statements"] += 1
            block.counts[reason] += 1
        return made

    def _reason_to_leave_out(self, property_id: str, token: bytes) -> str | None:
        if not is_property_id(property_id):
            return "unusable property id"
        if token.endswith(b"#dateTime>"):
            return NO_PRECISION
        return NO_UNIT if token.endswith(b"#decimal>") else None


def _snak(property_id: str, token: bytes) -> Snak:
    if b"/prop/novalue/" in token:
        return Snak("novalue", property_id)
    return snak_of(property_id, parse_term(token))
