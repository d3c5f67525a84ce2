"""Every hand-written wording passes the final filters: one that does not would silently lose questions."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kgedit.timesteps.filters import FACTS, QUESTIONS, find_faults
from kgedit.timesteps.relation_words import RelationWords
from kgedit.wording.personas import persona_table, voices
from kgedit.wording.templates import template_table

SUBJECT = "Xaver Zymql"
HEAD = {"property": "P6", "phrase": "the head of government of {subject}"}


def wordings() -> Iterator[tuple[str, list[str], str | None, str]]:
    """Axis, relations, persona and text: two hops by way of a head of government, one question of each persona."""
    templates, personas = template_table().to_pylist(), voices()
    for place, row in enumerate(templates):
        own = [row["property"]]
        for axis, text in [("update", row["question"]), *(("rephrase", text) for text in row["rephrases"])]:
            yield axis, own, None, text
            yield "mhop", [HEAD["property"], *own], None, text.replace("{subject}", HEAD["phrase"])
        for voice in personas:
            yield "personas", own, voice.persona, voice.ask(row["phrase"], row["answer_type"], place)
    for frame in persona_table()["frame"].to_pylist():
        yield "framed", [templates[0]["property"]], None, frame.replace("{question}", templates[0]["question"])


def test_every_shipped_wording_passes_the_final_filters() -> None:
    questions = [
        {"fact": str(place), "number": 0, "axis": axis, "relations": relations, "persona": persona}
        | {"question": text.replace("{subject}", SUBJECT)}
        for place, (axis, relations, persona, text) in enumerate(wordings())
    ]
    facts = [
        {"fact": row["fact"], "subject": SUBJECT, "answer": "Qwertz", "accepted": [], "unlike": []}
        | {"hidden": ["Uiop"] if row["axis"] == "mhop" else []}
        for row in questions
    ]
    judged = find_faults(
        pa.Table.from_pylist(questions, schema=QUESTIONS),
        pa.Table.from_pylist(facts, schema=FACTS),
        RelationWords(template_table(), voices()),
    ).to_pylist()
    assert len(judged) > 9000
    assert [(row["reason"], row["question"]) for row in judged if row["reason"]] == []
