"""Edits of which a test names only what it is about."""

from __future__ import annotations

from typing import Any

from kgedit.records.cases import Case, Fact


def plain_case(fact: Fact, *, timestep: str, **more: Any) -> Case:
    """An update without probes, whose answer is the fact's object; `more` are other fields of Case."""
    by_default = {
        "case_id": f"{fact.subject}:{fact.property}:{fact.object}",
        "tag": "update",
        "question": "Who?",
        "answer": fact.object_label,
        "cloze": "",
        "old_objects": (),
        "old_answers": (),
        "probes": (),
    }
    return Case(timestep=timestep, fact=fact, **(by_default | more))  # type: ignore[arg-type]
