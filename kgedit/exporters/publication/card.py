"""Data set card, README.md, with front matter read by the hub and `datasets`; and Croissant metadata (1.0, JSON-LD).

In Croissant each Parquet file is a separate record set, whose name prefixes the ids of its fields, because ids are
unique in a document. The document is written without mlcroissant, which is untyped and brings pandas, scipy and rdflib
for a hundred lines of JSON; the tests read it with mlcroissant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import yaml

from kgedit import __version__
from kgedit.exporters.publication.content import (
    COLUMNS,
    LICENSE_URLS,
    RUNS_CONFIG,
    RUNS_SPLIT,
    TASK_FOLDER,
    Publication,
    citation_bibtex,
    data_path,
    task_tag,
)
from kgedit.exporters.publication.wordings import are_worded_by_models, source_of_questions
from kgedit.records.cases import AXES, Axis

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))

_PROJECTED = (
    "Projected: a snapshot shows an earlier day as a later dump dates it, not what Wikidata said on that day. It lacks "
    "facts without dates."
)

_AXES: dict[Axis, str] = {
    "update": "the edit's own question",
    "rephrase": "the edit's question in other words",
    "personas": "the same as somebody else would ask it",
    "alias": "the subject by another name",
    "crosslingual": "the edit's question in another language",
    "mhop": "a question that needs the edit and one to three more facts",
    "mhop_rephrase": "the same in other words",
    "hop": "one fact of a chain alone",
    "consequence": "what the fact alone implies",
    "locality": "a fact near the edit, which the edit must not change",
    "random_locality": "a fact drawn at random, which the edit must not change",
}


def card(publication: Publication) -> str:
    """Content of the whole file."""
    header = yaml.safe_dump(_front_matter(publication), sort_keys=False, allow_unicode=True)
    return f"---\n{header}---\n\n" + "\n\n".join(_sections(publication)) + "\n"


def _front_matter(publication: Publication) -> dict[str, object]:
    about = publication.about
    # The hub knows licences by name; for others it requires license "other" and a separate name.
    named = {"license": about.license}
    if about.license not in LICENSE_URLS:
        named = {"license": "other", "license_name": about.license}
    return {
        "pretty_name": about.name,
        "language": publication.languages,
        **named,
        "task_categories": ["question-answering", "text-generation"],
        "tags": ["knowledge-editing", "wikidata", "temporal", "croissant"],
        "size_categories": [_size(sum(rows.num_rows for rows in publication.tables.values()))],
        "configs": list(_configs(publication)),
    }


def _configs(publication: Publication) -> Iterator[dict[str, object]]:
    for step in publication.timesteps:
        first = {"default": True} if step is publication.timesteps[0] else {}
        yield {
            "config_name": step.config,
            **first,
            "data_files": [_split(step.config, axis) for axis in step.questions],
        }
    if publication.results is not None:
        yield {"config_name": RUNS_CONFIG, "data_files": [_split(RUNS_CONFIG, RUNS_SPLIT)]}


def _split(config: str, split: str) -> dict[str, str]:
    return {"split": split, "path": str(data_path(config, split))}


def _size(rows: int) -> str:
    return next((name for limit, name in _SIZES if rows < limit), "n>10M")


def _sections(publication: Publication) -> Iterator[str]:
    yield f"# {publication.about.name}"
    yield publication.summary
    yield "Each configuration is a timestep, the window between two snapshots; each split is an axis."
    yield _timesteps(publication)
    if any(step.timestep.is_projected for step in publication.timesteps):
        yield _PROJECTED
    yield "## Load it\n\n" + _loading(publication)
    yield "## Splits and columns\n\n" + _table(("split", "asks"), ((axis, _AXES[axis]) for axis in _axes(publication)))
    yield _table(("column", "holds"), ((f"`{name}`", meaning) for name, meaning in COLUMNS.items()))
    yield "## Other forms\n\n" + _forms()
    if publication.results is not None:
        yield "## Runs\n\n" + _runs(publication.results)
    yield f"## Limits\n\n{_limitations(publication)}\n\n{BIASES} {PERSONAL}"
    yield "## How it was made\n\n" + _making(publication)
    yield "## Licence\n\n" + _licence(publication)
    yield f"## Citation\n\nCITATION.cff, or:\n\n```bibtex\n{citation_bibtex()}\n```"


def _axes(publication: Publication) -> list[Axis]:
    """Axes that any timestep has questions on."""
    return [axis for axis in AXES if any(axis in step.questions for step in publication.timesteps)]


def _timesteps(publication: Publication) -> str:
    axes = _axes(publication)
    rows = []
    for step in publication.timesteps:
        counts = [f"{step.questions[axis].num_rows:,}" if axis in step.questions else "0" for axis in axes]
        rows.append((f"`{step.config}`", *step.dates, "yes" if step.timestep.is_projected else "no", *counts))
    return _table(("configuration", "from", "to", "projected", *axes), rows)


_HUB_DATASET = re.compile(r"https?://(?:huggingface\.co|hf\.co)/datasets/([\w.-]+(?:/[\w.-]+)?)/*", re.ASCII)
"""Address of a data set on the hub; the group is its id."""


def _loading(publication: Publication) -> str:
    config, about = publication.timesteps[0].config, publication.about
    on_hub = _HUB_DATASET.fullmatch(about.url or "")
    where = on_hub[1] if on_hub else "FOLDER"
    return f"""\
```python
import datasets

rows = datasets.load_dataset("{where}", "{config}", split="update")
```

```sh
lm_eval --include_path {TASK_FOLDER} --tasks {task_tag(config)} --model hf --model_args pretrained=MODEL
kgedit run-edit --timestep timesteps/{config} --model MODEL --method METHOD --out RUN
```"""


def _forms() -> str:
    rows = (
        ("`timesteps/NAME/`", "the timestep as kgedit made it, with known facts and all second hops"),
        ("`timesteps/NAME/easyedit.json`", "EasyEdit's KnowEdit form"),
        ("`timesteps/NAME/wikibigedit.json`", "WikiBigEdit's form"),
        ("`timesteps/NAME/wikifactdiff.jsonl`", "WikiFactDiff's form"),
        (f"`{TASK_FOLDER}/`", "tasks of lm-evaluation-harness, which read `data/`; greedy answers, compared without "
                              "regard to case and punctuation, and `new_or_old`: which answer is likelier"),
        ("`croissant.json`", "Croissant metadata"),
        ("`publication.json`", "SHA-256 of every file; what the timesteps were made from"),
    )  # fmt: skip
    return _table(("path", "is"), rows)


def _runs(results: pa.Table) -> str:
    """Scores directly after a timestep's own edits, over all timesteps, by each preset's own metric."""
    rows = [row for row in results.to_pylist() if row["stage"] == "own" and row["timestep"] is None and row["main"]]
    shown = (
        (row["run"], row["model"], row["method"], f"{row['edits']:,}", row["axis"], row["preset"], row["metric"],
         f"{row['n']:,}", _mean(row))
        for row in rows
    )  # fmt: skip
    head = ("run", "model", "method", "edits", "axis", "preset", "metric", "n", "mean (95 % interval)")
    introduction = (
        f'All scores: `datasets.load_dataset(..., "{RUNS_CONFIG}")`. Right after a timestep\'s own edits, shares in %:'
    )
    return f"{introduction}\n\n{_table(head, shown)}"


def _mean(row: dict[str, Any]) -> str:
    mean, low, high = (_written(row[name], share=row["is_share"]) for name in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})" if low else mean


def _written(value: float | None, *, share: bool) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}" if share else f"{value:.4g}"


def _making(publication: Publication) -> str:
    rows = []
    for step in publication.timesteps:
        manifest = step.timestep.manifest
        for snapshot in manifest.get("snapshots", ()):
            source = snapshot.get("source", {})
            rows.append((f"`{step.config}`", snapshot.get("date"), source.get("name"), _hash(snapshot)))
    snapshots = _table(("configuration", "snapshot", "file", "SHA-256"), rows) if rows else "Snapshots: not recorded."
    return f"By kgedit {__version__}; settings and the funnel are in `timesteps/NAME/timestep.json`.\n\n{snapshots}"


def _hash(snapshot: Mapping[str, Any]) -> str:
    """Hash of a snapshot's file; a load with --limit does not read it to its end."""
    sha256, limit = snapshot.get("source", {}).get("sha256"), snapshot.get("limit")
    if sha256:
        return f"`{sha256}`"
    return f"none: the first {limit:,} lines" if limit else "none"


def _limitations(publication: Publication) -> str:
    worded = ", or worded by a language model," if are_worded_by_models(publication) else ""
    return (
        "Facts are Wikidata's, with its errors and its gaps: what an editor entered late looks like a change of that "
        f"day. Questions are rendered from templates{worded} and were not read one by one."
    )


def _licence(publication: Publication) -> str:
    licence = publication.about.license
    url = LICENSE_URLS.get(licence)
    return (
        f"This data set: {f'[{licence}]({url})' if url else licence}. Facts and labels are Wikidata's, which gives "
        f"them away under CC0 1.0; {source_of_questions(publication)}"
    )


def _table(head: tuple[str, ...], rows: object) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]  # type: ignore[attr-defined]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


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
        "inLanguage": publication.languages,
        "keywords": ["knowledge editing", "wikidata", "question answering"],
        "temporalCoverage": "/".join((min(s.dates[0] for s in publication.timesteps),
                                      max(s.dates[1] for s in publication.timesteps))),
        "rai:dataCollection": "Comparison of dated snapshots of Wikidata by kgedit; publication.json has their hashes.",
        "rai:dataLimitations": _limitations(publication),
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
