"""Run folders and a timestep for pages: small ones, ones with hostile labels, and large ones."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from world.small_cases import plain_case
from world.small_runs import SYNTHETIC, T1, answer, cost, write_run
from world.small_timestep import write_timestep

from kgedit.records.cases import Case, Fact
from kgedit.records.runs import Answer
from kgedit.runs.run_files import write_edited_cases
from kgedit.runs.scoring import write_scores
from kgedit.timesteps.changes import DROPPED

NOT_ENTITIES = "not entity to entity"
REMOVED = "a reason as long as the longest: list, category, template, disambiguation, portal, module"
RELATIONS = (("P6", "head of government"), ("P286", "head coach"), ("P54", "member of sports team"))


def case_of(number: int, label: str, *, relations: int = len(RELATIONS)) -> Case:
    """An edit of a subject with this label; cases cycle through `relations` relations."""
    turn = number % relations
    relation, name = RELATIONS[turn] if turn < len(RELATIONS) else (f"P{3000 + turn}", f"relation {turn}")
    fact = Fact(f"Q{100 + number}", label, relation, name, f"Q{900 + number}", f"New {label}")
    return plain_case(
        fact,
        timestep=T1,
        tag="update" if number % 2 else "new",
        question=f"Who leads {label}?",
        old_objects=(f"Q{800 + number}",),
        old_answers=(f"Old {label}",),
        start_time="2022-05",
        kind="update",
    )


def answers_of(
    number: int, case: Case, *, said: Sequence[str], retrieved: tuple[str, ...] = (), forced: float | None = None
) -> list[Answer]:
    """Answers before and after, free and forced, on two axes.

    Args:
        said: Free answers: update before and after, locality before and after.
        forced: Share of correct tokens under teacher forcing after the edit; None alternates between all and a quarter.
    """
    found = []
    for axis, texts in (("update", said[:2]), ("locality", said[2:])):
        question = case.question if axis == "update" else f"What is near {case.fact.subject_label}?"
        accepted = (case.answer,) if axis == "update" else ("The river",)
        for after, text in zip((None, T1), texts, strict=True):
            own = {"axis": axis, "question": question, "answers": accepted, "after": after}
            shown = retrieved if after else ()
            found.append(answer(case.case_id, text=text, prompt=f"Q: {question}\nA:", retrieved=shown, **own))
            match = (forced or (0.25 if number % 2 else 1.0)) if after else 0.25
            found.append(answer(case.case_id, of=SYNTHETIC, token_match=match, text=text, prompt=question, **own))
    return found


def write_page_run(
    folder: Path,
    labels: Sequence[str],
    *,
    method: str = "rag",
    right: int = 1,
    free: bool = True,
    forced: float | None = None,
    changed: int = 4,
    relations: int = len(RELATIONS),
    **spec: object,
) -> Path:
    """A scored run with one case per label; every `right`-th update is correct after the edit, none without `free`.

    Args:
        changed: Interval of changed unrelated answers: 1 means all, 4 every fourth one, 0 none.
        relations: Number of relations among the cases.
    """
    cases = [case_of(number, label, relations=relations) for number, label in enumerate(labels)]
    found: list[Answer] = []
    for number, case in enumerate(cases):
        ok = free and number % right == 0
        after = case.answer if ok else ("" if number % 3 else case.old_answers[0])
        said = ("No idea", after, "The river", "A lake" if changed and number % changed == 0 else "The river")
        facts = (case.case_id,) if method == "rag" else ()
        found += answers_of(number, case, said=said, retrieved=facts, forced=forced)
    write_run(folder, found, [cost([case.case_id for case in cases])], method=method, **spec)
    write_edited_cases(folder, cases)
    write_scores(folder)
    return folder


def write_page_timestep(folder: Path, labels: Sequence[str]) -> Path:
    """A timestep of ten towns, labelled by cycling through `labels`, with dropped changes."""
    write_timestep(folder)
    for name in ("cases", "locality", "two_hops"):
        path = folder / f"{name}.parquet"
        table = pq.read_table(path)
        rows = table.to_pylist()
        for index, row in enumerate(rows):
            label = labels[index % len(labels)]
            row |= {"subject_label": label, "object_label": f"{label} II", "question": f"Who leads {label}?"}
            if name == "cases":
                row |= {"kind": "update", "kind_confidence": 0.95, "kind_signals": [label], "start_time": "2020-05-01"}
                row |= {"old_answers": [f"{label} I"], "rephrase": None, "subject_class": "place"}
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    dropped = [
        {
            "subject": f"Q{number}",
            "subject_label": label,
            "property": "P6",
            "property_label": "head of government",
            "old_objects": ["Q7"],
            "old_labels": [label],
            "new_objects": [],
            "new_labels": [],
            "reason": REMOVED if number % 2 else NOT_ENTITIES,
        }
        for number, label in enumerate(labels, start=500)
    ]
    pq.write_table(pa.Table.from_pylist(dropped, schema=DROPPED), folder / "dropped.parquet")
    counts = {NOT_ENTITIES: -(-len(labels) // 2), REMOVED: len(labels) // 2}
    snapshots = [
        {"date": "2020-01-01", "entities": 20, "statements": 40},
        {"date": "2021-01-01", "entities": 22, "statements": 44},
    ]
    manifest = {
        "timestep": "20200101_20210101",
        "profile": "wikibigedit",
        "kgedit": "0.1.0",
        "snapshots": snapshots,
        "funnel": {"changed": 10 + len(labels), "dropped": counts, "kept": 10},
    }
    (folder / "timestep.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


NAMES = tuple(f"Town {number}" for number in range(12))


def unpacked(text: str) -> Any:
    """Unpack the data embedded in a page."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
