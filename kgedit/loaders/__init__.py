"""Loaders of source formats. In a checkout their files are in the top-level folder ``loaders/``."""

from pathlib import Path

from kgedit.registry import Registry
from kgedit.store.schemas import Loader

_checkout = Path(__file__).parent.parent.parent / "loaders"
if (_checkout / "wikidata_json.py").is_file():
    __path__.append(str(_checkout))

LOADERS: Registry[type[Loader]] = Registry(
    "source format",
    {
        "kgtk": "kgedit.loaders.kgtk:KgtkParser",
        "wikidata_json": "kgedit.loaders.wikidata_json:JsonParser",
        "wikidata_rdf": "kgedit.loaders.wikidata_rdf:FullRdfParser",
        "wikidata_truthy": "kgedit.loaders.wikidata_truthy:TruthyParser",
        "wikidata_xml": "kgedit.loaders.wikidata_xml:XmlParser",
    },
    group="kgedit.loaders",
)
"""Classes that implement the contract `Loader`."""
