"""Applies the final filters to a model's replies, and rebuilds the timestep's tables with the texts that pass.

A text that fails a filter is replaced by the template's; every question has a row with its source, and the reason if it
is not from the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.llm.remote.requests import ChatReply, FailedCall
from kgedit.timesteps.tables import CASES, LOCALITY, TWO_HOPS
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.verbalizing.prompting import read_prompt
from kgedit.timesteps.verbalizing.wanted import ANSWER_DIFFERS, Wanted, faults_of, is_answer, letters

MODEL, TEMPLATE = "model", "template"

WORDINGS = pa.schema(
    [
        ("axis", pa.string()),
        ("case_id", pa.string()),
        ("number", pa.int64()),
        ("question", pa.string()),
        ("source", pa.string()),
        ("reason", pa.string()),
        ("said", pa.string()),
        ("template_fault", pa.string()),
    ]
)
"""wordings.parquet: source of each question of a worded timestep, ordered by axis, case and number.

number counts from 0 the questions of one case and axis; 0 is the question used. source is "model" or "template";
for a template, reason says why the model's text was rejected and said is that text, or the whole reply if it was
unusable. template_fault: the final filter that the template fails as well; it is kept because there is no alternative.
"""

NO_FORM = "the reply is not of the form asked for"
CUT_OFF = "the reply was cut off"


@dataclass(frozen=True, slots=True)
class Wording:
    """One question as used; see WORDINGS."""

    question: str
    source: str
    reason: str | None = None
    said: str | None = None


Judged = tuple[list[str], list[tuple[str, str | None]]]
"""Texts of a reply that pass, and reason and text of those that fail."""


def choose_wordings(
    wanted: Sequence[Wanted], replies: Sequence[ChatReply | FailedCall], *, prompts: Path | None = None
) -> list[list[Wording]]:
    """Choose the questions of each record: the model's that pass, then templates in place of the others."""
    judged = judge_replies(wanted, replies, prompts=prompts)
    return [
        _chosen(one, *texts, read_prompt(one.prompt, prompts).texts) for one, texts in zip(wanted, judged, strict=True)
    ]


def _chosen(wanted: Wanted, texts: list[str], failed: list[tuple[str, str | None]], asked_for: int) -> list[Wording]:
    chosen = [Wording(text, MODEL) for text in texts]
    used = {letters(text) for text in texts}
    spare = [text for text in wanted.templates if letters(text) not in used]
    missing = max(len(wanted.templates), asked_for) - len(chosen)
    for index, text in enumerate(spare[:missing]):
        reason, said = failed[index] if index < len(failed) else (None, None)
        chosen.append(Wording(text, TEMPLATE, reason, said))
    return chosen


def judge_replies(
    wanted: Sequence[Wanted], replies: Sequence[ChatReply | FailedCall], *, prompts: Path | None = None
) -> list[Judged]:
    """Apply the filters to the texts of all replies at once."""
    read = [_read(one, reply, prompts) for one, reply in zip(wanted, replies, strict=True)]
    faults = faults_of([(one.asking, texts) for one, (texts, _) in zip(wanted, read, strict=True)])
    judged = []
    for (texts, failed), reasons in zip(read, faults, strict=True):
        checked = list(zip(reasons, texts, strict=True))
        passed = [text for reason, text in checked if reason is None]
        judged.append((passed, failed + [(reason, text) for reason, text in checked if reason is not None]))
    return judged


def _read(wanted: Wanted, reply: ChatReply | FailedCall, prompts: Path | None) -> Judged:
    """Texts of a reply to be judged; for an unusable reply the reason, once for each text that was requested."""
    prompt = read_prompt(wanted.prompt, prompts)
    if isinstance(reply, FailedCall):
        return [], [(f"no reply: {reply.reason}", None)] * prompt.texts
    read = prompt.read(reply.text)
    if read is None:
        return [], [(NO_FORM if reply.finished else CUT_OFF, reply.text)] * prompt.texts
    texts, answer = read
    if not is_answer(answer, wanted.asking):
        return [], [(ANSWER_DIFFERS, f"{text} {answer}") for text in texts]
    return list(texts), []


def wordings_table(wanted: Sequence[Wanted], chosen: Sequence[Sequence[Wording]]) -> pa.Table:
    """Every wording with its source; the schema is WORDINGS."""
    pairs = list(zip(wanted, chosen, strict=True))
    faults = faults_of([(one.asking, [wording.question for wording in wordings]) for one, wordings in pairs])
    rows = []
    for (one, wordings), reasons in zip(pairs, faults, strict=True):
        for number, (wording, fault) in enumerate(zip(wordings, reasons, strict=True)):
            rows.append(
                {
                    "axis": one.axis,
                    "case_id": one.case_id,
                    "number": number,
                    "question": wording.question,
                    "source": wording.source,
                    "reason": wording.reason,
                    "said": wording.said,
                    "template_fault": fault if wording.source == TEMPLATE else None,
                }
            )
    return pa.Table.from_pylist(rows, schema=WORDINGS)


def count_wordings(wordings: pa.Table) -> dict[str, Any]:
    """Axis -> questions by source, reasons for rejecting the model's, and templates that also fail a filter."""
    counted: dict[str, Any] = {}
    rows = wordings.select(["axis", "source", "reason", "template_fault"]).to_pylist()
    for axis in dict.fromkeys(row["axis"] for row in rows):
        own = [row for row in rows if row["axis"] == axis]
        counted[axis] = {
            "sources": _counts(row["source"] for row in own),
            "reasons": _counts(row["reason"] for row in own if row["reason"]),
            "template_faults": _counts(row["template_fault"] for row in own if row["template_fault"]),
        }
    return counted


def reworded_tables(timestep: Timestep, wordings: pa.Table) -> dict[str, pa.Table]:
    """Tables cases, locality and two_hops of the timestep with the questions of a table of wordings."""
    texts: dict[tuple[str, str], list[str]] = {}
    for row in wordings.to_pylist():
        texts.setdefault((row["axis"], row["case_id"]), []).append(row["question"])

    cases = [_case(row, texts) for row in timestep.table("cases").to_pylist()]
    locality = [_asked(row, texts.get(("locality", row["case_id"]))) for row in timestep.table("locality").to_pylist()]
    two_hops = []
    for row in timestep.table("two_hops").to_pylist():
        own = texts.get(("mhop", row["case_id"])) if row["chosen"] else None
        two_hops.append(_asked(row, own) | ({"rephrases": own[1:]} if own else {}))
    return {
        "cases": pa.Table.from_pylist(cases, schema=CASES),
        "locality": pa.Table.from_pylist(locality, schema=LOCALITY),
        "two_hops": pa.Table.from_pylist(two_hops, schema=TWO_HOPS),
    }


def _case(row: dict[str, Any], texts: Mapping[tuple[str, str], list[str]]) -> dict[str, Any]:
    case_id = row["case_id"]
    worded = _asked(row, texts.get(("update", case_id)))
    if own := texts.get(("rephrase", case_id)):
        worded |= {"rephrase": own[0], "rephrases": own}
    if own := texts.get(("personas", case_id)):
        worded |= {"personas": own[0]}
    return worded


def _asked(row: dict[str, Any], own: Sequence[str] | None) -> dict[str, Any]:
    return row | ({"question": own[0]} if own else {})


def _counts(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
