"""WikiFactDiff's ``triple_verbs``: triples in several wordings, from which come a relation's prompts.

A wording breaks off at a blank where the object stood. With the subject's label taken out it is a template; the five
that most triples of a relation share are its prompts, as in the released builder.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.timesteps.edit_files.contract import Row
from kgedit.timesteps.edit_files.rows import NotRowsError, read_rows
from kgedit.timesteps.edit_files.values import mapping_at, mappings_at, text_at

_MOST_TEMPLATES = 5
_SLOT = "\0"
"""Stands for the subject; no label holds it."""


def with_prompts(path: Path, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows with the prompts that they lack.

    Args:
        path: The file of the rows; ``triple_verbs.jsonl`` or ``triple_verbs.parquet`` is looked for beside it.
        rows: Its rows.

    Raises:
        TimestepError: if prompts are missing and there is no such file, or it is none.
    """
    if all(text_at(row, "update_prompt") for row in rows):
        return rows
    beside = next(
        (found for name in ("jsonl", "parquet") if (found := path.with_name(f"triple_verbs.{name}")).is_file()), None
    )
    if beside is None:
        raise TimestepError(
            f"{path} has rows without update_prompt. Put WikiFactDiff's triple_verbs.jsonl or triple_verbs.parquet "
            "into the same folder: their prompts are taken from it."
        )
    templates = _templates(beside)
    return [row if text_at(row, "update_prompt") else _prompted(row, templates) for row in rows]


def _prompted(row: Row, templates: Mapping[str, Sequence[str]]) -> Row:
    label = text_at(mapping_at(row, "subject"), "label")
    wordings = [text.replace(_SLOT, label) for text in templates.get(text_at(mapping_at(row, "relation"), "id"), ())]
    if not wordings:
        return row
    return {**row, "update_prompt": wordings[0], "generalization_prompts": wordings[1:]}


def _templates(path: Path) -> dict[str, list[str]]:
    """The templates of each relation, the most frequent first."""
    try:
        rows = read_rows(path.read_bytes())
    except (OSError, NotRowsError) as error:
        raise TimestepError(f"{path} cannot be read as triple_verbs: {error}.") from error
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in (row for row in rows if isinstance(row, Mapping)):
        triple = mapping_at(row, "triple")
        subject = text_at(mapping_at(triple, "subject"), "label")
        relation = text_at(mapping_at(triple, "relation"), "id")
        for wording in mappings_at(row, "verbalizations"):
            template = _template(text_at(wording, "fill_in_the_blank"), subject)
            if relation and template:
                counts[relation][template] += 1
    # By count and then by text: a Counter's own order is that of the file.
    return {
        relation: [text for text, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_MOST_TEMPLATES]]
        for relation, found in counts.items()
    }


def _template(wording: str, subject: str) -> str:
    """The wording with a slot for the subject; "" if the subject is not in it."""
    if not subject:
        return ""
    named = re.search(re.escape(subject), wording, re.IGNORECASE)
    return wording[: named.start()] + _SLOT + wording[named.end() :] if named else ""
