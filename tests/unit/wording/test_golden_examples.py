"""Questions of the shipped templates about 292 facts, word for word: tests/golden/templates/examples-worded.txt.

The facts are in examples.txt beside it; they go through the same functions as an export. To rewrite the file after a
change of wording: KGEDIT_UPDATE_GOLDEN=1 pytest tests/unit/wording
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from world.dumps import Json, entity
from world.two_days import about, two_snapshots

from kgedit.store.window import Window
from kgedit.timesteps.labels import describe_subjects
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.wikifactdiff.values import prepare_wording_of_literals, word_literals
from kgedit.timesteps.wording import choose_templates, word_cases
from kgedit.wording.grammar import SUBJECT_CLASSES
from kgedit.wording.names import name_rules
from kgedit.wording.personas import voices
from kgedit.wording.templates import read_templates, template_table

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "templates"
FIRST_SUBJECT, FIRST_COUNTRY = 900_000, 800_000


@dataclass(frozen=True)
class Example:
    property: str
    subject_class: str
    subject: str
    answer: str
    hint: str


def examples() -> list[Example]:
    """The facts of examples.txt, their literals in words."""
    lines = (GOLDEN / "examples.txt").read_text(encoding="utf-8").splitlines()
    rows = [[field.strip() for field in line.split("|")] for line in lines if line.startswith("P")]
    said = duckdb.connect()
    prepare_wording_of_literals(said)
    return [
        Example(name, kind, subject, in_words(answer, said), hint)
        for name, kind, subject, answer, hint in (row + [""] * (5 - len(row)) for row in rows)
    ]


def in_words(answer: str, said: duckdb.DuckDBPyConnection) -> str:
    if answer.startswith("time:"):
        kind, (value, precision), unit = "time", answer.removeprefix("time:").split("/"), None
    elif answer.startswith("number:"):
        kind, (value, _, unit), precision = "quantity", answer.removeprefix("number:").partition(" "), None
    else:
        return answer
    literal = "SELECT $1 AS value_type, $2 AS value, $3 AS precision, $4 AS unit_name"
    found = said.execute(f"SELECT said FROM ({word_literals(literal)})", [kind, value, precision, unit or None])
    return str((found.fetchone() or ("",))[0])


def world(found: list[Example]) -> tuple[list[Json], dict[str, str]]:
    """Items with the subjects' labels, and the id of each; a hint makes a second item bear it."""
    firsts: dict[str, int] = {}
    for number, one in enumerate(found):
        firsts.setdefault(one.subject, number)
    ids = {subject: f"Q{FIRST_SUBJECT + 2 * number}" for subject, number in firsts.items()}
    items: list[Json] = []
    countries: dict[str, str] = {}
    roots = name_rules().classes
    for number, one in enumerate(found):
        if number != firsts[one.subject]:
            continue
        claims = [about("P31", roots[one.subject_class][0])] if one.subject_class else []
        if one.hint.startswith("in "):
            name = one.hint[3:]
            country = ids[name] if name in ids else countries.setdefault(name, f"Q{FIRST_COUNTRY + number}")
            claims.append(about("P17", country))
        described = {} if one.hint.startswith("in ") else {"en": {"language": "en", "value": one.hint}}
        items.append(entity(ids[one.subject], *claims, label=one.subject, descriptions=described))
        if one.hint:
            items.append(entity(f"Q{FIRST_SUBJECT + 2 * number + 1}", label=one.subject))
    return items + [entity(name, label=label) for label, name in countries.items()], ids


def worded(found: list[Example], folder: Path) -> list[dict[str, object]]:
    items, ids = world(found)
    labels = read_templates().labels
    cases = pa.Table.from_pylist(
        [
            {
                "case_id": f"{place:03}",
                "subject": ids[one.subject],
                "subject_label": one.subject,
                "property": one.property,
                "property_label": labels[one.property],
                "object_label": one.answer,
                "object_aliases": ["No such name"],
            }
            for place, one in enumerate(found)
        ]
    )
    with Window(*two_snapshots(folder, items, items), spill=folder / "spill") as window:
        subjects = describe_subjects(window.connection, cases)
    templates = choose_templates(cases, catalogue=None)
    words = RelationWords(templates, voices())
    result = word_cases(cases, templates, subjects, words, seed=0, personas=None)
    assert all(not axis["failed"] for axis in result.questions.values()), result.questions
    assert result.kept.num_rows == len(found), result.funnel
    return result.kept.to_pylist()


def test_examples_of_every_kind_are_worded_as_before(tmp_path: Path) -> None:
    found = examples()
    assert len(found) > 250
    assert {one.subject_class for one in found} == {"", *SUBJECT_CLASSES}
    variants = {(row["property"], row["subject_class"]) for row in template_table().to_pylist()}
    assert {key for key in variants if key[1]} <= {(one.property, one.subject_class) for one in found}
    lines: list[str] = []
    for place, row in enumerate(worded(found, tmp_path), 1):
        lines.append(f"{place}. {row['property']} {row['property_label']} [{row['subject_class']}]")
        lines += [f"  {text}" for text in (row["question"], *row["rephrases"])]  # type: ignore[misc]
        lines += [f"  {row['persona']}: {row['personas']}", f"  {row['statement']}"]
        lines += [f"  {text} ..." for text in row["clozes"][1:]]  # type: ignore[index]
    path = GOLDEN / "examples-worded.txt"
    text = "\n".join(lines) + "\n"
    if os.environ.get("KGEDIT_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
