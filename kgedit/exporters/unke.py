"""All changes of an item as one edit in UnKE's format: a paragraph, and a question about each change.

Edits in free text made of real changes: the target has one sentence for each case of the item, with the value before.
The form has one answer per question, so aliases are left out, and multi-hop questions have no place in it. Locality
questions are kgedit's addition, in lists with the names of AKEW's fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.resources import data_folder
from kgedit.store.files import array_text, write_text
from kgedit.timesteps.tables import CHANGED
from kgedit.timesteps.timestep import Timestep
from kgedit.wording.catalogues import Language, read_catalogue, read_language


def export(timestep: Timestep) -> Path:
    """Write unke.json into the timestep's folder: a JSON array, one object per item with a case, ordered by its id."""
    language = read_language(timestep.manifest.get("settings", {}).get("language", "en"))
    words = read_catalogue(data_folder("prompts") / "paragraphs" / f"{language.code}.yaml")
    cases = _with_locality(timestep.table("cases", columns=_READ), timestep)
    cases = cases.sort_by([("subject", "ascending"), ("case_id", "ascending")])
    rows = (row for batch in cases.to_batches(_ROWS_AT_ONCE) for row in batch.to_pylist())
    path = timestep.folder / "unke.json"
    items = (
        _row(subject, list(own), timestep.name[:4], words, language)
        for subject, own in groupby(rows, key=lambda row: str(row["subject"]))
    )
    write_text(path, array_text(items))
    return path


_ROWS_AT_ONCE = 2_000

_READ = [
    *("case_id", "subject", "subject_label", "name", "object_label", "old_answers"),
    *("question", "statement", "cloze"),
]


def _with_locality(cases: pa.Table, timestep: Timestep) -> pa.Table:
    """The cases with `near` and `near_answer`: the unchanged fact that is asked beside each, null without one."""
    near = timestep.table("locality", columns=["case_id", "basis", "question", "object_label"])
    near = near.filter(pc.not_equal(near["basis"], CHANGED))
    own = near.take(pc.index_in(cases["case_id"], near["case_id"]))
    return cases.append_column("near", own["question"]).append_column("near_answer", own["object_label"])


def _row(
    subject: str, cases: Sequence[dict[str, Any]], year: str, words: Mapping[str, Any], language: Language
) -> dict[str, object]:
    # Timesteps of WikiFactDiff have no name as in a sentence.
    label = cases[0]["subject_label"]
    name = (cases[0]["name"] or label) if language.is_english else language.in_sentence(label)

    def worded(text: str) -> str:
        return language.join(text.format(name=name, year=year))

    near = {case["near"]: case["near_answer"] for case in cases if case["near"]}
    return {
        "id": subject,
        "question": worded(words["question"]),
        "answer": language.space.join(_sentence(case, words, language) for case in cases),
        "para_question": [worded(text) for text in words["rephrase"]],
        "sub_question": [case["question"] for case in cases],
        "sub_answer": [case["object_label"] for case in cases],
        "loc": list(near),
        "loc_ans": list(near.values()),
    }


def _sentence(case: Mapping[str, Any], words: Mapping[str, Any], language: Language) -> str:
    """The update sentence of a case, with the values before."""
    sentence: str = case["statement"] or f"{case['cloze']} {case['object_label']}."
    if not case["old_answers"]:
        return sentence
    old = words["or"].join(case["old_answers"])
    stop = language.full_stop
    is_abbreviated = case["object_label"].endswith(stop)  # "Charles III." in German
    stated = sentence if is_abbreviated else sentence.removesuffix(stop)
    replaced: str = words["replaced"].format(sentence=stated, old=old.removesuffix(stop))
    return replaced
