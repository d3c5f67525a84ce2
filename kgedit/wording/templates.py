"""Question templates as a table, read from catalogues of wordings per language under prompts/templates.

A catalogue is one file, or a folder of YAML files by domain. The table is joined to facts by property and class of the
subject; properties without a template use the generic one. {subject} in a question is replaced by a name, or by the
`phrase` of another property, which makes a two-hop question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.resources import data_folder
from kgedit.wording.catalogues import content_hash, read_catalogue, refuse
from kgedit.wording.grammar import (
    Completer,
    Wordings,
    complete,
    complete_by,
    duplicates,
    entry_problems,
    merged_variant,
)

WORDINGS = ("question", "rephrase", "cloze", "phrase")
"""Columns with one wording; rephrase and cloze are the first of their lists."""

LISTS = ("rephrases", "clozes")
"""Columns with all rephrasings, and with the cloze of the edit and those that test generalization."""

ANY_CLASS = ""
"""subject_class of the wordings for all classes of subjects without a variant."""

TEMPLATES = pa.schema(
    [
        *((name, pa.string()) for name in ("property", "subject_class", "label", *WORDINGS)),
        *((name, pa.list_(pa.string())) for name in LISTS),
        *((name, pa.string()) for name in ("answer_type", "tense", "template")),
    ]
)
"""property (PID), the subject's class, the property's label, the wordings with {subject}, the type of the answer, the
tense, and the template's name such as "en-4:P6"."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A catalogue, read and linted.

    Attributes:
        edition: Name and version, "en-4".
        generic: Wordings with {property} and {subject}, for properties without a template; None if the catalogue has
            none, as one of another language than English.
        generic_quoted: The same for labels that are not noun phrases.
        not_nouns: Pattern of the labels that are not noun phrases.
        wordings: Wordings by PID and class of the subject; every PID has ANY_CLASS.
        labels: Labels of properties, for snapshots that lack their entities.
    """

    edition: str
    generic: Wordings | None
    generic_quoted: Wordings | None
    not_nouns: re.Pattern[str]
    wordings: Mapping[tuple[str, str], Wordings]
    labels: Mapping[str, str]


def shipped_templates() -> Path:
    """Path of the shipped catalogue."""
    return data_folder("prompts") / "templates" / "en"


def read_templates(catalogue: Path | None = None) -> Catalogue:
    """Read a catalogue and complete every entry.

    Args:
        catalogue: YAML file, or folder of YAML files, one of which contains name, version and the generic entry; None
            means the shipped one.

    Raises:
        TimestepError: with all problems, if the catalogue cannot be read or breaks the contract of its entries.
    """
    path = catalogue or shipped_templates()
    return _read(path, template_version(path))


@lru_cache(maxsize=4)
def _read(path: Path, _version: str) -> Catalogue:
    """Implements `read_templates`; `_version`, the hash of the files, makes a changed file a new cache entry."""
    content = _checked(path)
    entries = content["templates"]
    return Catalogue(
        edition=f"{content['name']}-{content['version']}",
        generic=complete(content["generic"]) if "generic" in content else None,
        generic_quoted=complete(content.get("generic_quoted", content["generic"])) if "generic" in content else None,
        not_nouns=_expression(content.get("not_nouns", "$^")),
        wordings=dict(_all_wordings(entries, _completer(content))),
        labels={name: str(entry["label"]) for name, entry in entries.items() if "label" in entry},
    )


def template_table(catalogue: Path | None = None) -> pa.Table:
    """All templates of a catalogue, ordered by the number of their property and then by class.

    Args:
        catalogue: See `read_templates`.

    Returns:
        A table with the schema TEMPLATES.

    Raises:
        TimestepError: see `read_templates`.
    """
    read = read_templates(catalogue)
    keys = sorted(read.wordings, key=lambda key: (int(key[0][1:]), key[1]))
    rows = [
        {"property": name, "subject_class": subject_class, "label": read.labels.get(name)}
        | {"template": f"{read.edition}:{name}"}
        | _columns(read.wordings[name, subject_class])
        for name, subject_class in keys
    ]
    return pa.Table.from_pylist(rows, schema=TEMPLATES)


def generic_row(read: Catalogue, name: str, label: str) -> dict[str, Any]:
    """The generic template for one property, as a row of TEMPLATES."""
    generic = read.generic_quoted if read.not_nouns.search(_PARENTHESIS.sub("", label)) else read.generic
    assert generic is not None, "only called for catalogues with a generic entry"
    worded = replace(
        generic,
        question=generic.question.replace("{property}", label),
        rephrases=tuple(text.replace("{property}", label) for text in generic.rephrases),
        clozes=tuple(text.replace("{property}", label) for text in generic.clozes),
        phrase=generic.phrase.replace("{property}", label),
    )
    named = {"property": name, "subject_class": ANY_CLASS, "label": None, "template": f"{read.edition}:generic"}
    return named | _columns(worded)


_PARENTHESIS = re.compile(r"\s*\([^)]*\)\s*$")
"""Suffix that distinguishes labels of properties: "place of origin (Switzerland)"."""


def _expression(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression that a catalogue writes over several lines, without the line breaks."""
    return re.compile(re.sub(r"\s+(?=\|)", "", pattern.strip()), re.IGNORECASE)


def template_version(catalogue: Path | None = None) -> str:
    """Content hash of the catalogue, for the provenance of a timestep."""
    return content_hash(_files(catalogue or shipped_templates()))


def _columns(worded: Wordings) -> dict[str, Any]:
    return {
        "question": worded.question,
        "rephrase": worded.rephrases[0],
        "cloze": worded.clozes[0],
        "phrase": worded.phrase,
        "rephrases": list(worded.rephrases),
        "clozes": list(worded.clozes),
        "answer_type": worded.answer,
        "tense": worded.tense,
    }


def _completer(content: Mapping[str, Any]) -> Completer:
    """Completes entries by the catalogue's own rules, or by those of English."""
    return partial(complete_by, content["derive"]) if "derive" in content else complete


def _all_wordings(entries: Mapping[str, Any], completed: Completer) -> Iterator[tuple[tuple[str, str], Wordings]]:
    for name, entry in entries.items():
        yield (name, ANY_CLASS), completed(entry)
        for subject_class, variant in (entry.get("variants") or {}).items():
            yield (name, subject_class), completed(merged_variant(entry, variant))


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise TimestepError(f"The catalogue {path} does not exist. Name one like prompts/templates/en.")
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not files:
        raise TimestepError(f"There is no template catalogue (*.yaml) in {path}. Put one there, or name another path.")
    return files


def _checked(path: Path) -> dict[str, Any]:
    content, problems = _merged(path)
    english = "derive" not in content
    needed = ("name", "version", "generic", "templates") if english else ("name", "version", "templates")
    problems += [f"the key '{key}' is missing" for key in needed if key not in content]
    completed = _completer(content)
    templates, generic = content.get("templates", {}), content.get("generic", {})
    if not (isinstance(templates, dict) and isinstance(generic, dict)):
        refuse(path, [*problems, "'generic' and 'templates' must be mappings"])
    for name, entry in templates.items():
        if not re.fullmatch(r"P[1-9]\d*", str(name)):
            problems.append(f"'{name}' is not a property id")
        problems += entry_problems(str(name), entry, slots=("subject",), completed=completed, english=english)
    if "generic" in content:
        problems += entry_problems("generic", generic, slots=("subject", "property"))
    if "generic_quoted" in content:
        problems += entry_problems("generic_quoted", content["generic_quoted"], slots=("subject", "property"))
    problems += _expression_problems(content.get("not_nouns", ""))
    refuse(path, problems)
    refuse(path, duplicates({name: completed(entry) for name, entry in templates.items()}))
    return content


def _expression_problems(pattern: object) -> list[str]:
    if not isinstance(pattern, str):
        return ["not_nouns: is not text"]
    try:
        _expression(pattern)
    except re.error as error:
        return [f"not_nouns: is not a regular expression: {error}"]
    return []


def _merged(path: Path) -> tuple[dict[str, Any], list[str]]:
    content: dict[str, Any] = {}
    problems: list[str] = []
    for file in _files(path):
        part = read_catalogue(file)
        templates = part.pop("templates", None)
        problems += [f"{file.name}: '{key}' is in another file, too" for key in part if key in content]
        content |= part
        if not isinstance(templates, dict):
            refuse(file, [] if templates is None else ["'generic' and 'templates' must be mappings"])
            continue
        known = content.setdefault("templates", {})
        problems += [f"{file.name}: {name} is in another file, too" for name in templates if name in known]
        known |= templates
    return content, problems
