"""WikiFactDiff's ``triple_verbs``: triples in several wordings, from which a relation's prompts are derived.

A wording has a blank in place of the object, at its end. Without the subject's label it is a template; the five that
most triples of a relation share are its prompts, as in the released builder. On the hub they are Parquet files in
a folder next to that of the rows, in the builder ``verbalizations.jsonl``.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.timesteps.edit_files.contract import Row
from kgedit.timesteps.edit_files.values import NotRowsError, mapping_at, mappings_at, read_rows, text_at

_MOST_TEMPLATES = 5
"""One cloze to edit with and four that test generalization (WikiFactDiff, section 5): the most frequent ones."""
_NAMES = ("triple_verbs", "triple_verbs_V2", "verbalizations", "chatgpt_verbalization_result")
"""Names of files and folders: the first two on the hub, the others in the builder; the paper's wordings come first."""

_ENDINGS = ("jsonl", "parquet")
_NEAR = ("neighborhood", "random_neighborhood")

_SLOT = "\0"
"""Placeholder of the subject; it occurs in no label."""


def with_prompts(path: Path, rows: Sequence[Row]) -> Sequence[Row]:
    """Add missing prompts to rows and their neighbours.

    Args:
        path: File of the rows; wordings are searched in its folder and the parent folder.
        rows: Its rows.

    Raises:
        TimestepError: if prompts of edits are missing and there are no wordings, or they cannot be read.
    """
    lacking = [row for row in rows if not text_at(row, "update_prompt")]
    if not lacking and not any(_lacks_prompt(entry) for row in rows for _, _, entry in _neighbours(row)):
        return rows
    found = _find(path.absolute().parent)
    if not found and lacking:
        raise TimestepError(
            f"{path} has rows without update_prompt. Put WikiFactDiff's triple_verbs.jsonl or triple_verbs.parquet, or "
            "its folder triple_verbs, into the same folder or the one above: their prompts are taken from it."
        )
    templates = _templates(found) if found else {}
    return [_prompted(row, templates) for row in rows]


def _find(folder: Path) -> list[Path]:
    """Files of the first location with wordings, ordered by name."""
    for base in (folder, folder.parent):
        for name in _NAMES:
            beside = [base / f"{name}.{ending}" for ending in _ENDINGS]
            inside = [one for ending in _ENDINGS for one in sorted((base / name).glob(f"*.{ending}"))]
            if found := [one for one in beside if one.is_file()][:1] or inside:
                return found
    return []


def _prompted(row: Row, templates: Mapping[str, Sequence[str]]) -> Row:
    own = text_at(mapping_at(row, "relation"), "id")
    changed = dict(row)
    if not text_at(row, "update_prompt") and templates.get(own):
        label = text_at(mapping_at(row, "subject"), "label")
        wordings = [text.replace(_SLOT, label) for text in templates[own]]
        changed |= {"update_prompt": wordings[0], "generalization_prompts": wordings[1:]}
    for field in _NEAR:
        if any(_lacks_prompt(entry) for name, _, entry in _neighbours(row) if name == field):
            changed[field] = [_prompted_neighbour(one, own, templates) for one in mappings_at(row, field)]
    return changed


def _prompted_neighbour(neighbour: Row, relation: str, templates: Mapping[str, Sequence[str]]) -> Row:
    """A neighbour with a prompt for each of its objects, chosen by the fact among those of the relation."""
    subject, own = mapping_at(neighbour, "subject"), text_at(neighbour, "relation") or relation
    objects = []
    for entry in mappings_at(neighbour, "objects"):
        fact = f"{own} {text_at(subject, 'id', 'label')} {text_at(mapping_at(entry, 'object'), 'id', 'label')}"
        drawn = random.Random(f"triple_verbs {fact}").choice(templates.get(own) or [""])
        asked = drawn.replace(_SLOT, text_at(subject, "label"))
        objects.append({**entry, "prompt": asked} if _lacks_prompt(entry) else entry)
    return {**neighbour, "objects": objects}


def _neighbours(row: Row) -> Iterator[tuple[str, Row, Row]]:
    """Yield the field, the neighbour and each of its objects."""
    for field in _NEAR:
        for neighbour in mappings_at(row, field):
            yield from ((field, neighbour, entry) for entry in mappings_at(neighbour, "objects"))


def _lacks_prompt(entry: Row) -> bool:
    return not text_at(entry, "prompt")


def _templates(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Templates of each relation, most frequent first."""
    rows: list[object] = []
    for path in paths:
        try:
            rows += read_rows(path.read_bytes())
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
    # By count and then by text: a Counter's order depends on that of the file.
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
