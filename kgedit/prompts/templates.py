"""Question templates: one catalogue of wordings per language under prompts/templates, here as a table.

The table is joined to facts by property; a property that it lacks takes the generic template. {subject} in a
question stands for a label or for the `phrase` of another property, which makes a two-hop question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.prompts.catalogues import content_hash, read_catalogue, refuse
from kgedit.resources import data_folder

WORDINGS = ("question", "rephrase", "cloze", "phrase")

TEMPLATES = pa.schema([(name, pa.string()) for name in ("property", *WORDINGS, "template")])
"""property (PID), the four wordings with {subject}, and the template's name such as "en-1:P6"."""

_NOTES = {"label", "example"}
_ASKING = ("question", "rephrase")


@dataclass(frozen=True, slots=True)
class GenericTemplate:
    """Wordings with {property} and {subject}, for properties without a template of their own.

    Attributes:
        question: Ends in "?".
        rephrase: The same in other words.
        cloze: Breaks off where the answer follows.
        phrase: Noun phrase for two-hop questions.
        template: Its name, "en-1:generic", which marks every case that was worded by it.
    """

    question: str
    rephrase: str
    cloze: str
    phrase: str
    template: str


def shipped_templates() -> Path:
    """The catalogue that comes with kgedit."""
    return data_folder("prompts") / "templates" / "en.yaml"


def template_table(catalogue: Path | None = None) -> pa.Table:
    """Every template of a catalogue, ordered by the number of its property.

    Args:
        catalogue: A YAML file of the same form as the shipped one; None means the shipped one.

    Returns:
        A table with the schema TEMPLATES.

    Raises:
        BenchmarkError: if the catalogue cannot be read or breaks the contract of its entries; all problems at once.
    """
    content = _checked(catalogue or shipped_templates())
    entries = sorted(content["templates"].items(), key=lambda entry: int(entry[0][1:]))
    columns: dict[str, list[str]] = {"property": [name for name, _ in entries]}
    columns |= {wording: [entry[wording] for _, entry in entries] for wording in WORDINGS}
    columns["template"] = [f"{_edition(content)}:{name}" for name, _ in entries]
    return pa.table(columns, schema=TEMPLATES)


def generic_template(catalogue: Path | None = None) -> GenericTemplate:
    """The wordings for any other property, made from its label.

    Raises:
        BenchmarkError: as template_table.
    """
    content = _checked(catalogue or shipped_templates())
    return GenericTemplate(
        **{wording: content["generic"][wording] for wording in WORDINGS}, template=f"{_edition(content)}:generic"
    )


def template_version(catalogue: Path | None = None) -> str:
    """Content hash of the catalogue, for the provenance of a timestep."""
    return content_hash([catalogue or shipped_templates()])


def _edition(content: Mapping[str, Any]) -> str:
    return f"{content['name']}-{content['version']}"


def _checked(path: Path) -> dict[str, Any]:
    content = read_catalogue(path)
    problems = [
        f"the key '{key}' is missing" for key in ("name", "version", "generic", "templates") if key not in content
    ]
    templates, generic = content.get("templates", {}), content.get("generic", {})
    if not (isinstance(templates, dict) and isinstance(generic, dict)):
        refuse(path, [*problems, "'generic' and 'templates' must be mappings"])
    for name, entry in templates.items():
        if not re.fullmatch(r"P[1-9]\d*", str(name)):
            problems.append(f"'{name}' is no property id")
        problems += entry_problems(str(name), entry, slots=("subject",))
    if "generic" in content:
        problems += entry_problems("generic", generic, slots=("subject", "property"))
    refuse(path, problems)
    return content


def entry_problems(name: str, entry: object, *, slots: tuple[str, ...]) -> list[str]:
    """What is wrong with one entry: its name before each problem.

    Args:
        name: PID, or "generic".
        entry: What the catalogue holds under that name.
        slots: Names that each wording must hold in braces, once each.
    """
    if not isinstance(entry, dict):
        return [f"{name}: is no mapping with {', '.join(WORDINGS)}"]
    problems = [f"{name}: unknown key '{key}'" for key in entry if key not in {*WORDINGS, *_NOTES}]
    for wording in WORDINGS:
        text = entry.get(wording)
        faults = _wording_faults(wording, text, slots) if isinstance(text, str) else ["is missing or no text"]
        problems += [f"{name}: {wording} {fault}" for fault in faults]
    if not problems and _letters(entry["question"]) == _letters(entry["rephrase"]):
        problems.append(f"{name}: rephrase says the same words as question")
    return problems


def _wording_faults(wording: str, text: str, slots: tuple[str, ...]) -> list[str]:
    faults = [f"must hold {{{slot}}} exactly once" for slot in slots if text.count(f"{{{slot}}}") != 1]
    rest = text
    for slot in slots:
        rest = rest.replace(f"{{{slot}}}", "")
    if "{" in rest or "}" in rest:
        faults.append("holds a stray brace")
    if " ".join(text.split()) != text:
        faults.append("holds spaces at an end or in a row")
    if wording in _ASKING and not text.endswith("?"):
        faults.append('does not end in "?"')
    if wording not in _ASKING and text.endswith((".", "?", "!", ":", ",")):
        faults.append("ends in a punctuation mark")
    return faults


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()
