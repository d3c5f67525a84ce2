"""What is known of a relation in words: its description for the model, and the words by which a question expresses it.

Words come from every template of the relation, its label, aliases and description, cut to stems. That is generous: the
filter that uses them is meant for questions that ask for something else altogether.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kgedit.benchmark.wording import choose_templates
from kgedit.store.engine import literal, select
from kgedit.store.snapshots import Snapshot

_EMPTY = frozenset(
    re.findall(
        r"\w+",
        """
    a an and any anyone are as at be been by can could did do does for from had has have having he her his how i in
    into is it its me most my no not of on one or our she so some such that the their them there these they this those
    to was were what when where which who whom whose will with would you your about after all also answer asks called
    concept database element entity first following give given goes have instance item items known list look looks main
    name named names object people person place places property question records recorded right said same statement
    subject tell thing things time title used uses value values wikidata work works
    """,
    )
)
"""Words that express no relation: of grammar, and those in which Wikidata describes all relations."""

_ENDINGS = ("ings", "ing", "ers", "ors", "er", "or", "ed", "es", "s")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation in words.

    Attributes:
        label: Its name.
        description: What it means, in a sentence or less.
        stems: Of the words by which it may be expressed; none if all of its words are empty ones.
    """

    label: str
    description: str
    stems: frozenset[str]


def read_relations(facts: pa.Table, snapshot: Snapshot | None, *, catalogue: Path | None = None) -> dict[str, Relation]:
    """The relations of some facts, by PID.

    Args:
        facts: Columns property and property_label.
        snapshot: Whose descriptions and aliases are read; None, or a snapshot without the property's entity: the
            template's noun phrase is its description.
        catalogue: Of templates; None for the shipped one.
    """
    templates: dict[str, list[dict[str, object]]] = {}
    for row in choose_templates(facts, catalogue=catalogue).to_pylist():
        templates.setdefault(row["property"], []).append(row)
    labels = dict(zip(facts["property"].to_pylist(), facts["property_label"].to_pylist(), strict=True))
    entities = _entities(snapshot, list(labels))
    found = {}
    for name, label in sorted(labels.items()):
        description, aliases = entities.get(name, ("", ()))
        rows = templates[name]
        said = [text for row in rows for text in _wordings(row)]
        phrase = str(rows[0]["phrase"]).replace("{subject}", "the subject")
        found[name] = Relation(label, description or phrase, stems([label, description, *aliases, *said]))
    return found


def stems(texts: Iterable[str]) -> frozenset[str]:
    """Stems of the words that mean something."""
    words = {word for text in texts for word in re.findall(r"[^\W\d_]+", text.replace("{subject}", " ").casefold())}
    return frozenset(_stem(word) for word in words if len(word) > 2 and word not in _EMPTY)


def voice_stems(relation: Relation, words: Mapping[str, str]) -> frozenset[str]:
    """Stems by which a persona may express a relation: its own, and those of what the persona says in their place."""
    own = [said for word, said in words.items() if stems([word]) & relation.stems]
    return relation.stems | stems(own)


def _stem(word: str) -> str:
    # "heading" is "head" and "government" is "govern", but "headquarters" and "heart" are not.
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) > 2), "")
    return word.removesuffix(ending)[:5]


def _wordings(row: Mapping[str, object]) -> list[str]:
    texts = [str(row[name]) for name in ("question", "phrase")]
    for name in ("rephrases", "clozes"):
        found = row[name]
        texts += found if isinstance(found, list) else []
    return texts


def _entities(snapshot: Snapshot | None, properties: list[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    if snapshot is None:
        return {}
    rows = select(
        f"""
        SELECT id, coalesce(description, '') AS description, coalesce(aliases, []) AS aliases
        FROM read_parquet({literal(snapshot.entities)}) JOIN wanted USING (id) ORDER BY id
        """,  # noqa: S608 - a path of ours
        wanted=pa.table({"id": properties}),
    ).to_pylist()
    return {row["id"]: (row["description"], tuple(row["aliases"])) for row in rows}
