"""Wikidata's full RDF: dumps as N-Triples or (of moderate size) Turtle, and documents as RDF/XML or JSON-LD.

The plain value of a statement contains less than its value node, and the node may be in another block, so some
statements are read after all blocks are parsed (kgedit.store.builds).
"""

from __future__ import annotations

from typing import ClassVar

from kgedit.loaders.rdf_blocks import RdfBlock, RdfEntity, RdfParser
from kgedit.store.rows import Statement


class FullRdfParser(RdfParser):
    """Parses blocks of whole entities of the full dump."""

    source: ClassVar[str] = "https://www.mediawiki.org/wiki/Wikibase/Indexing/RDF_Dump_Format"
    version: ClassVar[str] = "2"
    lacks: ClassVar[tuple[str, ...]] = (
        "formulas as TeX",
        "equal values said twice in one qualifier",
        "language codes that RDF spells otherwise",
        "order of aliases in all but N-Triples",
        "URLs that are addresses of entities or of files on Commons",
    )

    def statements_of(self, block: RdfBlock, name: str, entity: RdfEntity) -> list[Statement]:
        """Statements to which the entity's p: triples refer."""
        return [made for property_id, node in entity.statements for made in block.statement(name, property_id, node)]
