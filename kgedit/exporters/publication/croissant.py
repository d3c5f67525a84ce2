"""Croissant metadata of the data set (version 1.0, JSON-LD): files with hashes, columns with types.

Each Parquet file is a separate record set, whose name prefixes the ids of its fields, because ids are unique in a
document.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from kgedit.exporters.publication.about import LICENSE_URLS, Publication, citation_bibtex
from kgedit.exporters.publication.questions import COLUMNS

_CR = ("citeAs", "column", "extract", "field", "fileProperty", "fileObject", "fileSet", "format", "includes",
       "equivalentProperty", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet",
       "references", "regex", "repeated", "replace", "samplingRate", "separator", "source",
       "subField", "transform")  # fmt: skip

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{name: f"cr:{name}" for name in _CR},
}

_TYPES = {
    pa.string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.int64(): "sc:Integer",
    pa.float64(): "sc:Float",
}

LIMITATIONS = (
    "Facts are Wikidata's, with its errors and its gaps: what an editor entered late looks like a change of that day. "
    "Questions are rendered from templates and were not read one by one."
)
PERSONAL = "Names of people of public record, as Wikidata has them."
BIASES = "Wikidata knows some countries, languages, professions and genders better than others."


def croissant(publication: Publication, files: Mapping[PurePosixPath, str]) -> dict[str, Any]:
    """Build the document.

    Args:
        publication: The publication.
        files: Path of each table in the publication -> SHA-256 of its file.
    """
    about = publication.about
    said = {"url": about.url, "datePublished": about.date}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": about.name,
        "description": publication.summary,
        "version": about.version,
        "license": LICENSE_URLS.get(about.license, about.license),
        **{name: value for name, value in said.items() if value is not None},
        "creator": {"@type": "sc:Organization", "name": "The kgedit authors"},
        "citeAs": citation_bibtex(),
        "inLanguage": "en",
        "keywords": ["knowledge editing", "wikidata", "question answering"],
        "temporalCoverage": "/".join((min(s.dates[0] for s in publication.timesteps),
                                      max(s.dates[1] for s in publication.timesteps))),
        "rai:dataCollection": "Comparison of dated snapshots of Wikidata by kgedit; publication.json has their hashes.",
        "rai:dataLimitations": LIMITATIONS,
        "rai:dataBiases": BIASES,
        "rai:personalSensitiveInformation": PERSONAL,
        "distribution": [_file(path, sha256) for path, sha256 in files.items()],
        "recordSet": [_records(path, rows.schema) for path, rows in publication.tables.items()],
    }  # fmt: skip


def _file(path: PurePosixPath, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": str(path),
        "name": _name(path),
        "contentUrl": str(path),
        "encodingFormat": "application/x-parquet",
        "sha256": sha256,
    }


def _records(path: PurePosixPath, schema: pa.Schema) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": _name(path),
        "name": _name(path),
        "description": f"The rows of {path}.",
        "field": [_field(path, column) for column in schema],
    }


def _field(path: PurePosixPath, column: pa.Field) -> dict[str, Any]:
    is_list = pa.types.is_list(column.type)
    return {
        "@type": "cr:Field",
        "@id": f"{_name(path)}/{column.name}",
        "name": column.name,
        "description": COLUMNS.get(column.name, column.name.replace("_", " ")),
        "dataType": _TYPES[column.type.value_type if is_list else column.type],
        **({"repeated": True} if is_list else {}),
        "source": {"fileObject": {"@id": str(path)}, "extract": {"column": column.name}},
    }


def _name(path: PurePosixPath) -> str:
    """Configuration and split as one name; different ones have different columns."""
    return f"{path.parent.name}_{path.stem}"
