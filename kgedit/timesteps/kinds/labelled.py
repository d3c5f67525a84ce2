"""Files of labelled changes, from which a classifier of kinds is trained.

Two formats are read: kgedit's own columns, and the CSV in which the human-labelled edits of
wikidata-change-classification are published, recognized by its columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from kgedit.errors import TimestepError
from kgedit.timesteps.kinds.signals import KINDS, VALUES
from kgedit.wikidata.times import DAY, parse_time

REQUIRED = ("subject", "property", "value_type", "old_text", "new_text", "kind")
"""Columns that a file in kgedit's format must have; the others of VALUES may be missing or empty."""

PUBLISHED = (
    "entity_id",
    "property_id",
    "property_label",
    "datatype",
    "old_value",
    "new_value",
    "old_value_label",
    "new_value_label",
    "old_value_description",
    "new_value_description",
    "label",
)
"""Columns of the published edits that are read; together they identify that format."""

LABELLED = VALUES.append(pa.field("kind", pa.string()))

_KIND_OF_LABEL = {
    "property_value_update": "update",
    "refinement": "refinement",
    "unrefinement": "unrefinement",
    "re_formatting": "reformatting",
    "link_change": "link repair",
    "textual_change": "text edit",
}
_VALUE_TYPES = {"wikibase-entityid": "item", "unknown-values": "string"}
_NO_PROPERTIES = {"-1": "label", "-2": "description"}
"""Property numbers in the published edits of changes of a label and of a description."""


def read_labelled(path: Path) -> pa.Table:
    """Read labelled changes from a file: columns LABELLED.

    Args:
        path: CSV with a header, or JSON lines (``.jsonl``), with the columns REQUIRED and any others of VALUES, where
            ``text`` is an entity's label or a literal in the store's spelling: numbers without a plus sign, dates
            truncated at their precision. Or the published edits, with the columns PUBLISHED.

    Raises:
        TimestepError: if the file cannot be read, lacks a column, or has an unknown kind.
    """
    table = _read(path)
    if set(PUBLISHED) <= set(table.schema.names):
        return _read_published(table, path)
    missing = [name for name in REQUIRED if name not in table.schema.names]
    if missing:
        raise TimestepError(
            f"The labelled changes in {path} lack the columns {', '.join(missing)}. Columns that must be there: "
            f"{', '.join(REQUIRED)} (docs/how-to/classify-changes.md)."
        )
    _refuse_unknown(set(table["kind"].to_pylist()) - set(KINDS), KINDS, path)
    columns = {name: table[name] if name in table.schema.names else pa.nulls(len(table)) for name in VALUES.names}
    return pa.table({**columns, "kind": table["kind"]}).cast(LABELLED)


def _read(path: Path) -> pa.Table:
    try:
        if path.suffix == ".jsonl":
            return pa.json.read_json(path)
        texts = dict.fromkeys([*LABELLED.names, *PUBLISHED], pa.string())
        options = pa.csv.ConvertOptions(column_types=texts, strings_can_be_null=True, null_values=[""])
        return pa.csv.read_csv(
            path, convert_options=options, parse_options=pa.csv.ParseOptions(newlines_in_values=True)
        )
    except (OSError, pa.ArrowInvalid) as error:
        raise TimestepError(f"The labelled changes in {path} cannot be read as CSV or JSON lines: {error}") from error


def _read_published(table: pa.Table, path: Path) -> pa.Table:
    """Read the published edits; of several labels of an edit the first one counts."""
    rows = [{name: value or "" for name, value in row.items()} for row in table.select(PUBLISHED).to_pylist()]
    labels = [row["label"].partition(",")[0].strip() for row in rows]
    _refuse_unknown(set(labels) - set(_KIND_OF_LABEL), _KIND_OF_LABEL, path)
    kinds = [_KIND_OF_LABEL[label] for label in labels]
    values = [_values(row) | {"kind": kind} for row, kind in zip(rows, kinds, strict=True)]
    return pa.Table.from_pylist(values, LABELLED)


def _refuse_unknown(unknown: set[str], known: Iterable[str], path: Path) -> None:
    if unknown:
        wrong = ", ".join(sorted(str(kind) for kind in unknown))
        raise TimestepError(f"The labelled changes in {path} have unknown kinds: {wrong}. Known: {', '.join(known)}.")


def _values(row: dict[str, str]) -> dict[str, str | None]:
    """One published edit as a row of VALUES."""
    value_type = _VALUE_TYPES.get(row["datatype"], row["datatype"])
    values: dict[str, str | None] = {
        "subject": f"Q{row['entity_id']}",
        "property": _NO_PROPERTIES.get(row["property_id"], f"P{row['property_id']}"),
        "property_label": _known(row["property_label"]),
        "value_type": value_type,
    }
    for side in ("old", "new"):
        text = row[f"{side}_value"].removeprefix('"').removesuffix('"')
        if value_type == "item":
            values[f"{side}_object"] = text
            values[f"{side}_text"] = _known(row[f"{side}_value_label"])
            values[f"{side}_description"] = _known(row[f"{side}_value_description"])
        elif value_type == "time":
            values[f"{side}_text"], values[f"{side}_precision"] = _date(text)
        else:
            values[f"{side}_text"] = text.removeprefix("+") if value_type == "quantity" else text
    return values


def _known(text: str) -> str | None:
    return None if text in ("", "NULL") else text


def _date(text: str) -> tuple[str | None, str | None]:
    """Text and precision as in the store; the published edits have no precision, but 00 for an unknown month or day."""
    try:
        read = parse_time(text.replace(" ", ""), DAY)
    except ValueError:
        return None, None
    return read.text, str(read.precision)
