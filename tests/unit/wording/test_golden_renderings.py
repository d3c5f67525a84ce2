"""Two-hop questions and personas, word for word: tests/golden/templates. One hop: test_golden_examples.py.

A wording that changes on purpose raises the catalogue's version; then rewrite the files with
KGEDIT_UPDATE_GOLDEN=1 pytest tests/unit/wording
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kgedit.wording.catalogues import read_catalogue
from kgedit.wording.names import name_rules
from kgedit.wording.personas import persona_table, voices
from kgedit.wording.templates import ANY_CLASS, shipped_templates, template_table

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "templates"
ROWS = {row["property"]: row for row in template_table().to_pylist() if row["subject_class"] == ANY_CLASS}
EXAMPLES = {
    name: entry["example"]
    for file in sorted(shipped_templates().glob("*.yaml"))
    for name, entry in read_catalogue(file).get("templates", {}).items()
}
MOST_ASKED = tuple(ROWS)[:250]
"""The properties with the lowest numbers: the oldest, which most facts have."""
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


def test_two_hop_questions_read_as_before() -> None:
    lines = []
    for chain in CHAINS:
        first, second = chain.split(":")
        phrase = ROWS[first]["phrase"].format(subject=name_rules().in_sentence(EXAMPLES[first]))
        lines.append(f"{chain} {ROWS[second]['question'].format(subject=phrase)}")
    compare("two-hop.txt", lines)


def test_frames_of_personas_read_as_before() -> None:
    question = "Who is the head of government of Canada?"
    lines = [
        f"{row['persona']} {row['frame_index']}: {row['frame'].format(question=question)}"
        for row in persona_table().to_pylist()
    ]
    compare("persona-frames.txt", lines)


def test_personas_reword_as_before() -> None:
    lines = []
    for place, name in enumerate(MOST_ASKED[::10]):
        row = ROWS[name]
        for voice in voices():
            asked = voice.ask(row["phrase"], row["answer_type"], place)
            lines.append(
                f"{name} {voice.persona}: {asked.replace('{subject}', name_rules().in_sentence(EXAMPLES[name]))}"
            )
    compare("personas.txt", lines)
