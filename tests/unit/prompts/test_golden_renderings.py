"""What the shipped templates and personas say, word for word: tests/golden/templates.

A wording that changes on purpose raises the catalogue's version; then write the files anew with
KGEDIT_UPDATE_GOLDEN=1 pytest tests/unit/prompts
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import yaml

from kgedit.prompts.personas import persona_table
from kgedit.prompts.templates import generic_template, shipped_templates, template_table

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "templates"
ROWS = {row["property"]: row for row in template_table().to_pylist()}
EXAMPLES = {
    name: entry["example"]
    for name, entry in yaml.safe_load(shipped_templates().read_text(encoding="utf-8"))["templates"].items()
}
# Chains that changes of one season really make: first hop, second hop.
CHAINS = re.findall(
    r"P\d+:P\d+",
    """
    P6:P26 P6:P102 P6:P39 P6:P19 P6:P69 P35:P26 P35:P27 P36:P6 P36:P190 P36:P131 P39:P1308 P39:P2389 P54:P286 P54:P115
    P54:P118 P54:P159 P54:P127 P286:P54 P286:P19 P286:P27 P488:P108 P488:P102 P169:P108 P169:P166 P108:P169 P108:P159
    P108:P749 P102:P488 P102:P1142 P26:P39 P26:P551 P159:P6 P127:P169 P127:P159 P112:P108 P50:P166 P57:P26 P161:P551
    P166:P1346 P166:P488 P551:P6 P69:P1075 P131:P6 P17:P35 P361:P488 P137:P169 P176:P169 P178:P749 P115:P127 P115:P859
    P1346:P286 P1365:P102 P1366:P26 P1376:P35 P463:P488 P463:P3975 P749:P169 P1037:P69 P5769:P108 P170:P20 P1830:P169
    P1433:P5769 P138:P20 P156:P57 P3450:P1346 P3602:P1346 P740:P6 P840:P6 P1308:P26 P190:P6 P118:P859 P641:P488
""",
)


def compare(name: str, lines: list[str]) -> None:
    path = GOLDEN / name
    text = "\n".join(lines) + "\n"
    if os.environ.get("KGEDIT_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_template_reads_as_before() -> None:
    lines: list[str] = []
    for name, row in ROWS.items():
        said = (row[wording].format(subject=EXAMPLES[name]) for wording in ("question", "rephrase", "cloze", "phrase"))
        lines += [row["template"], *(f"  {text}" for text in said)]
    generic = generic_template()
    lines.append(generic.template)
    for text in (generic.question, generic.rephrase, generic.cloze, generic.phrase):
        lines.append(f"  {text.format(property='mascot', subject='Yale University')}")
    compare("en-1.txt", lines)


def test_two_hop_questions_read_as_before() -> None:
    lines = []
    for chain in CHAINS:
        first, second = chain.split(":")
        phrase = ROWS[first]["phrase"].format(subject=EXAMPLES[first])
        lines.append(f"{chain} {ROWS[second]['question'].format(subject=phrase)}")
    compare("en-1-two-hop.txt", lines)


def test_personas_speak_as_before() -> None:
    question = "Who is the head of government of Canada?"
    lines = [
        f"{row['persona']} {row['frame_index']}: {row['frame'].format(question=question)}"
        for row in persona_table().to_pylist()
    ]
    compare("personas.txt", lines)
