"""Applies the final filters to a model's replies, and rebuilds the timestep's tables with the texts that pass.

A text that fails a filter is replaced by the template's; every question has a row with its source, and the reason if it
is not from the model. Verbalizers are compared on the same facts by the share that passes, length and variety.
WikiBigEdit's table 3 shows one question of each model for two facts; here every text is measured before any fallback,
including the templates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.llm.remote.requests import ChatReply, FailedCall
from kgedit.timesteps.tables import CASES, LOCALITY, TWO_HOPS
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.verbalizing import ANSWER_DIFFERS, Wanted, faults_of, is_answer, letters
from kgedit.timesteps.verbalizing.prompting import read_prompt
from kgedit.wording.personas import overlap

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
    """Choose the questions of each record: the model's that pass, then templates in place of the others.

    Questions of edits are chosen first, and no rephrasing of the same case repeats them.
    """
    asked: dict[str, str] = {}
    chosen: dict[int, list[Wording]] = {}
    for first in (True, False):
        own = [index for index, one in enumerate(wanted) if (one.axis == "update") is first]
        records = [_unlike(wanted[index], asked) for index in own]
        judged = judge_replies(records, [replies[index] for index in own], prompts=prompts)
        for index, one, texts in zip(own, records, judged, strict=True):
            chosen[index] = _chosen(one, *texts, read_prompt(one.prompt, prompts).texts)
            if first:
                asked[one.case_id] = chosen[index][0].question
    return [chosen[index] for index in range(len(wanted))]


def _unlike(wanted: Wanted, asked: Mapping[str, str]) -> Wanted:
    """The record of a rephrasing, which must also differ from the question of the edit as chosen."""
    if wanted.axis not in ("rephrase", "personas") or wanted.case_id not in asked:
        return wanted
    asking = replace(wanted.asking, unlike=(*wanted.asking.unlike, asked[wanted.case_id]))
    return replace(wanted, asking=asking)


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


SUMMARY = pa.schema(
    [
        ("verbalizer", pa.string()),
        ("axis", pa.string()),
        ("facts", pa.int64()),
        ("questions", pa.int64()),
        ("passed", pa.float64()),
        ("words", pa.float64()),
        ("overlap", pa.float64()),
        ("distinct", pa.float64()),
        ("faults", pa.string()),
    ]
)
"""One row per verbalizer and axis.

questions: number of requested questions, including those of unreadable replies. passed: share of them that pass all
filters, in [0, 1]. Of those that pass: words: mean number of words; overlap: with the nearest template of the same
axis, shared words over all words (Jaccard, mean), 1 for the templates themselves; distinct: different pairs of
neighbouring words over all pairs, without subjects, in (0, 1]: higher is more varied. Null if none passes. faults:
reasons with counts.
"""


@dataclass(frozen=True, slots=True)
class VerbalizerTexts:
    """One verbalizer's texts for one record, unchanged.

    Attributes:
        passed: Texts that pass all filters.
        faults: Reason of each text that fails.
    """

    passed: tuple[str, ...]
    faults: tuple[str, ...]


def texts_of_templates(wanted: Sequence[Wanted]) -> list[VerbalizerTexts]:
    """Texts of the templates for records."""
    found = []
    for one, faults in zip(wanted, faults_of([(one.asking, one.templates) for one in wanted]), strict=True):
        passed = tuple(text for text, fault in zip(one.templates, faults, strict=True) if fault is None)
        found.append(VerbalizerTexts(passed, tuple(fault for fault in faults if fault)))
    return found


def texts_of_model(
    wanted: Sequence[Wanted], replies: Sequence[ChatReply | FailedCall], *, prompts: Path | None = None
) -> list[VerbalizerTexts]:
    """Texts of a model for records."""
    judged = judge_replies(wanted, replies, prompts=prompts)
    return [VerbalizerTexts(tuple(passed), tuple(reason for reason, _ in failed)) for passed, failed in judged]


def summarize(wanted: Sequence[Wanted], by_verbalizer: Mapping[str, Sequence[VerbalizerTexts]]) -> pa.Table:
    """Compare verbalizers; the schema of the result is SUMMARY.

    Args:
        wanted: Records.
        by_verbalizer: Verbalizer -> its texts for each record.
    """
    rows = []
    for axis in dict.fromkeys(one.axis for one in wanted):
        for name, texts in by_verbalizer.items():
            own = [(one, texts_of_one) for one, texts_of_one in zip(wanted, texts, strict=True) if one.axis == axis]
            rows.append({"verbalizer": name, "axis": axis} | _measures(own))
    return pa.Table.from_pylist(rows, schema=SUMMARY)


def side_by_side(wanted: Sequence[Wanted], by_verbalizer: Mapping[str, Sequence[VerbalizerTexts]]) -> pa.Table:
    """First text of every verbalizer for each record: columns axis, fact, and one per verbalizer."""
    rows = []
    for index, one in enumerate(wanted):
        row = {"axis": one.axis, "fact": _fact(one)}
        for name, texts in by_verbalizer.items():
            texts_of_one = texts[index]
            row[name] = (
                texts_of_one.passed[0]
                if texts_of_one.passed
                else f"({texts_of_one.faults[0]})"
                if texts_of_one.faults
                else "(none)"
            )
        rows.append(row)
    names = ["axis", "fact", *by_verbalizer]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))


def _measures(own: Sequence[tuple[Wanted, VerbalizerTexts]]) -> dict[str, Any]:
    passed = [(one, text) for one, texts_of_one in own for text in texts_of_one.passed]
    faults = Counter(fault for _, texts_of_one in own for fault in texts_of_one.faults)
    asked = len(passed) + faults.total()
    overlaps = [max((overlap(text, other) for other in one.templates), default=0.0) for one, text in passed]
    return {
        "facts": len(own),
        "questions": asked,
        "passed": round(len(passed) / asked, 4) if asked else None,
        "words": _mean(len(text.split()) for _, text in passed),
        "overlap": _mean(overlaps),
        "distinct": _distinct_pairs(passed),
        "faults": "; ".join(f"{fault}: {count}" for fault, count in faults.most_common()),
    }


def _distinct_pairs(passed: Sequence[tuple[Wanted, str]]) -> float | None:
    pairs: Counter[tuple[str, str]] = Counter()
    for one, text in passed:
        words = letters(text).replace(letters(one.asking.subject), "S").split()
        pairs.update(pairwise(words))
    return round(len(pairs) / pairs.total(), 4) if pairs else None


def _mean(values: Iterable[float]) -> float | None:
    given = list(values)
    return round(sum(given) / len(given), 4) if given else None


def _fact(one: Wanted) -> str:
    chain = one.record.get("chain")
    if chain:
        return " → ".join(chain)
    names = [one.record.get("relation"), one.record.get("question"), one.asking.answer]
    return " → ".join(str(name) for name in (one.asking.subject, *names) if name)
