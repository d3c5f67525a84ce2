"""All changes of an item as one edit in UnKE's format: a paragraph, and a question about each change.

Edits in free text made of real changes: the target has one sentence for each case of the item, with the value before.
The form has one answer per question, so aliases are left out; locality and multi-hop questions have no place in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from kgedit.resources import data_folder
from kgedit.store.files import array_text, write_text
from kgedit.timesteps.timestep import Timestep
from kgedit.wording.catalogues import read_catalogue
from kgedit.wording.languages import Language, read_language


def export(timestep: Timestep) -> Path:
    """Write unke.json into the timestep's folder: a JSON array, one object per item with a case, ordered by its id."""
    language = read_language(timestep.manifest.get("settings", {}).get("language", "en"))
    words = read_catalogue(data_folder("prompts") / "paragraphs" / f"{language.code}.yaml")
    cases = timestep.table("cases", columns=_READ).sort_by([("subject", "ascending"), ("case_id", "ascending")])
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


def _row(
    subject: str, cases: Sequence[dict[str, Any]], year: str, words: Mapping[str, Any], language: Language
) -> dict[str, object]:
    # Timesteps of WikiFactDiff have no name as in a sentence.
    label = cases[0]["subject_label"]
    name = (cases[0]["name"] or label) if language.is_english else language.in_sentence(label)

    def worded(text: str) -> str:
        return language.join(text.format(name=name, year=year))

    return {
        "id": subject,
        "question": worded(words["question"]),
        "answer": language.space.join(_sentence(case, words, language) for case in cases),
        "para_question": [worded(text) for text in words["rephrase"]],
        "sub_question": [case["question"] for case in cases],
        "sub_answer": [case["object_label"] for case in cases],
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
