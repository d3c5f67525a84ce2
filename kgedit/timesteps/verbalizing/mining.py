"""Templates of clozes mined from a model's statements of many facts (WikiFactDiff, section 4.5 and appendix D).

For each relation, facts of popular subjects are stated ten times each. Statements that contain the subject and end in
the object become templates, and the most frequent ones are kept: wordings that fit only one fact occur for one fact
only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from kgedit.errors import TimestepError
from kgedit.llm.remote.requests import ChatReply, FailedCall
from kgedit.store.engine import literal, open_in_memory, select
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.verbalizing import Asking, Wanted
from kgedit.timesteps.verbalizing.prompting import Record, read_prompt
from kgedit.timesteps.verbalizing.rewording import NO_FORM
from kgedit.timesteps.wikifactdiff.workspace import measure_popularity
from kgedit.wording.catalogues import read_catalogue
from kgedit.wording.grammar import CLOZES, entry_problems
from kgedit.wording.templates import shipped_templates

MOST_POPULAR = 100_000
FACTS_PER_RELATION = 100
"""Both as published."""

MINED = pa.schema(
    [("property", pa.string()), ("property_label", pa.string()), ("cloze", pa.string()), ("times", pa.int64())]
)
"""Templates that were found, the most frequent of each relation first; times is the number of facts stated that way."""

_FACTS = """
WITH fact AS MATERIALIZED (
    SELECT subject, property, object FROM read_parquet({facts})
    WHERE kind = 'item' AND ($all OR property IN (SELECT unnest($properties)))
), named AS MATERIALIZED (
    SELECT id, label, coalesce(description, '') AS description FROM read_parquet({entities})
    WHERE label IS NOT NULL AND label <> id AND redirect_target IS NULL
), popular AS (
    {popular}
), first AS (
    SELECT subject, property, min(object) AS object FROM fact SEMI JOIN popular ON popular.id = subject
    GROUP BY subject, property
), drawn AS (
    SELECT f.*, row_number() OVER (PARTITION BY property ORDER BY md5(concat_ws('|', $seed, subject))) AS turn
    FROM first f SEMI JOIN named ON named.id = subject SEMI JOIN named n ON n.id = object
)
SELECT d.subject, s.label AS subject_label, s.description AS subject_description,
       d.property, p.label AS property_label, p.description AS property_description,
       d.object, o.label AS object_label, o.description AS object_description
FROM drawn d JOIN named s ON s.id = d.subject JOIN named o ON o.id = d.object JOIN named p ON p.id = d.property
WHERE turn <= $per_relation AND NOT contains(lower(s.label), lower(o.label))
  AND NOT contains(lower(o.label), lower(s.label))
ORDER BY d.property, turn
"""


_MOST_MENTIONED = """
    SELECT object AS id FROM read_parquet({facts}) WHERE kind = 'item'
    GROUP BY object ORDER BY count(*) DESC, object LIMIT $most
"""
_MOST_READ = "SELECT id FROM popularity WHERE basis = 'page views' ORDER BY popularity DESC, id[2:]::BIGINT LIMIT $most"


def facts_to_state(
    snapshot: Snapshot,
    *,
    properties: Sequence[str] = (),
    per_relation: int = FACTS_PER_RELATION,
    most_popular: int = MOST_POPULAR,
    pageviews: Sequence[Path] = (),
    seed: int = 0,
) -> pa.Table:
    """Choose facts of popular subjects, at most one per subject and relation (WikiFactDiff, appendix D).

    Args:
        snapshot: Snapshot of the store.
        properties: Relations to state; empty means all that have items as values.
        per_relation: Maximum number of facts per relation.
        most_popular: Number of items that count as popular: the most read ones, or without page views those that are
            the value of most facts.
        pageviews: Monthly files of page views, of which the twelve before the snapshot's month count
            (kgedit.timesteps.wikifactdiff.workspace).
        seed: Seed of the sample of facts.

    Returns:
        Ids, labels and descriptions of subject, property and object, ordered by property. A fact is left out if the
        name of its subject contains that of its object or the reverse, because a template could not separate them.

    Raises:
        TimestepError: if a month is given twice, a file name contains no month, or no file is of the year before the
            snapshot.
        SourceError: if a file cannot be read.
    """
    facts, entities = literal(snapshot.facts), literal(snapshot.entities)
    popular = _MOST_READ if pageviews else _MOST_MENTIONED.format(facts=facts)
    query = _FACTS.format(facts=facts, entities=entities, popular=popular)
    given = {
        "all": not properties,
        "properties": list(properties),
        "most": most_popular,
        "per_relation": per_relation,
        "seed": str(seed),
    }
    return select(query, given, **({"popularity": _popularity(snapshot, pageviews)} if pageviews else {}))


def _popularity(snapshot: Snapshot, pageviews: Sequence[Path]) -> pa.Table:
    """Columns id, popularity and basis of the snapshot's items with an article."""
    with open_in_memory() as workspace:
        # measure_popularity reads a window's newer snapshot.
        known = f"FROM read_parquet({literal(snapshot.entities)}) WHERE redirect_target IS NULL"
        workspace.execute(f"CREATE VIEW known AS {known}")
        workspace.execute(f"CREATE VIEW new_facts AS FROM read_parquet({literal(snapshot.facts)})")
        used = measure_popularity(workspace, pageviews, wiki=snapshot.wiki, date=snapshot.date)
        if not used["months"]:
            raise TimestepError(
                f"No file of page views is of the twelve months before {snapshot.name}. Give files of these months."
            )
        return workspace.sql("FROM popularity").to_arrow_table()


def wanted_statements(facts: pa.Table) -> list[Wanted]:
    """One record per fact, with another fact of its relation as an example of its use."""
    rows = facts.to_pylist()
    own: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        own.setdefault(row["property"], []).append(row)
    wanted = []
    for name, same in own.items():
        for index, row in enumerate(same):
            record = _record(row, same[(index + 1) % len(same)])
            asking = Asking(subject=row["subject_label"], relations=(), answer=row["object_label"])
            sentence = f"The {row['property_label']} of {row['subject_label']} is {row['object_label']}."
            case_id = f"{row['subject']}:{name}:{row['object']}"
            wanted.append(
                Wanted(axis="statements", case_id=case_id, record=record, templates=(sentence,), asking=asking)
            )
    return wanted


def _record(row: Mapping[str, Any], other: Mapping[str, Any]) -> Record:
    record: dict[str, str | Sequence[str]] = {}
    for part, name in (("subject", "subject"), ("relation", "property"), ("object", "object")):
        record[part] = row[f"{name}_label"]
        if row[f"{name}_description"]:
            record[f"{part}_description"] = row[f"{name}_description"]
    if other["subject"] != row["subject"]:
        record["relation_example"] = [other["subject_label"], other["object_label"]]
    return record


@dataclass(frozen=True, slots=True)
class Mined:
    """Templates of relations.

    Attributes:
        table: All templates found; the schema is MINED.
        kept: Property -> its most frequent templates, at most five.
        dropped: Reason -> number of statements that became no template.
    """

    table: pa.Table
    kept: Mapping[str, tuple[str, ...]]
    dropped: Mapping[str, int]


def mine(facts: pa.Table, replies: Sequence[ChatReply | FailedCall], *, prompts: Path | None = None) -> Mined:
    """Mine templates from the replies to facts, in the order of wanted_statements."""
    prompt = read_prompt("statements", prompts)
    found: dict[tuple[str, str], Counter[str]] = {}
    dropped: Counter[str] = Counter()
    for row, reply in zip(facts.to_pylist(), replies, strict=True):
        read = prompt.read(reply.text) if isinstance(reply, ChatReply) else None
        if read is None:
            reason = f"no reply: {reply.reason}" if isinstance(reply, FailedCall) else NO_FORM
            dropped[reason] += prompt.texts
            continue
        judged = [cloze_of(text, row["subject_label"], row["object_label"]) for text in read[0]]
        dropped.update(fault for _, fault in judged if fault)
        # A fact votes once for a template, however often the model repeats itself.
        own = {cloze for cloze, _ in judged if cloze}
        found.setdefault((row["property"], row["property_label"]), Counter()).update(own)
    rows: list[dict[str, Any]] = [
        {"property": name, "property_label": label, "cloze": cloze, "times": times}
        for (name, label), clozes in sorted(found.items(), key=lambda item: int(item[0][0][1:]))
        for cloze, times in sorted(clozes.items(), key=lambda item: (-item[1], item[0]))
    ]
    kept: dict[str, tuple[str, ...]] = {}
    for row in rows:
        kept[row["property"]] = (*kept.get(row["property"], ()), row["cloze"])[:CLOZES]
    return Mined(pa.Table.from_pylist(rows, schema=MINED), kept, dict(sorted(dropped.items())))


def cloze_of(statement: str, subject: str, answer: str) -> tuple[str | None, str | None]:
    """Template of a statement, or the reason why it has none: (cloze, None) or (None, reason)."""
    text = " ".join(statement.split())
    if not text.endswith(f" {answer}"):  # unless the last full stop is the answer's: "Apple Inc."
        text = text.removesuffix(".").rstrip()
    if not text.endswith(f" {answer}"):
        return None, "it does not end in the object"
    text = text.removesuffix(answer).rstrip()
    if text.count(subject) != 1:
        return None, "it does not hold the subject once"
    cloze = text.replace(subject, "{subject}")
    if re.search(r"[{}]", cloze.replace("{subject}", "", 1)):
        return None, "it is not plain text"
    faults = entry_problems("P0", {"phrase": "the value of {subject}", "cloze": cloze}, slots=("subject",))
    return (None, "the linter refuses its template") if faults else (cloze, None)


def mined_catalogue(mined: Mined) -> str:
    """The shipped template catalogue as YAML, with its clozes replaced by the mined ones.

    If fewer than five clozes were mined for a relation, those of its entry are added. Variants for classes of subjects
    are unchanged.
    """
    contents = [read_catalogue(file) for file in sorted(shipped_templates().glob("*.yaml"))]
    entries: dict[str, Any] = {}
    for content in contents:
        entries |= content.get("templates", {})
    labels = dict(zip(mined.table["property"].to_pylist(), mined.table["property_label"].to_pylist(), strict=True))
    for relation, clozes in mined.kept.items():
        own = entries.get(relation, {"label": labels[relation], "phrase": f"the {labels[relation]} of {{subject}}"})
        entries[relation] = {**own, "cloze": list(clozes)}
    generic = next(content["generic"] for content in contents if "generic" in content)
    ordered = {key: entries[key] for key in sorted(entries, key=lambda key: int(key[1:]))}
    written = {"name": "mined", "version": 1, "generic": generic, "templates": ordered}
    return yaml.safe_dump(written, allow_unicode=True, sort_keys=False, width=120)
