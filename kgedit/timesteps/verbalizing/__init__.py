"""Questions worded by a language model: the wordings that it should write, one record per case and axis.

Labels come from a wiki that anyone may edit and replies from a model: both are untrusted. Labels are sent as JSON and
truncated; only texts of a reply that pass the final filters are used. If a text fails, the template's is kept.

Every axis is worded from the fact or from the template's question, never from another reply of the model: so all
requests are known before the first is sent, can be estimated exactly, and go into one batch.

Words that express a relation are those of the templates (kgedit.timesteps.relation_words) and of its label, aliases and
description. A model also repeats the answer, which must be the object's label or an alias of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.store.engine import literal, select
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.crosslingual import language_of
from kgedit.timesteps.filters import FACTS, QUESTIONS, find_faults
from kgedit.timesteps.relation_words import expressing_stems, stems, voice_stems, wordings
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.verbalizing.prompting import PromptName, Record
from kgedit.timesteps.wording import choose_templates
from kgedit.wording.catalogues import ENGLISH, Language, language_catalogue, read_language
from kgedit.wording.personas import Voice, shipped_personas, voices

AXES = ("update", "rephrase", "personas", "mhop", "locality")
"""The axes of kgedit.records that have separate questions here."""

MASK = "[MASKED-ENTITY-1]"
"""Placeholder for a chain's bridge in requests; the instructions in prompts/verbalizer/two_hops.yaml explain it."""

PROMPT_OF: Mapping[str, PromptName] = {
    "update": "fact",
    "locality": "fact",
    "rephrase": "rephrase",
    "personas": "personas",
    "mhop": "two_hops",
    "statements": "statements",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One record to be worded.

    Attributes:
        axis: One of AXES; "statements" if no question is wanted (kgedit.timesteps.verbalizing.mining).
        case_id: The case; a case has at most one record on each axis.
        record: Input shown to the model.
        templates: Existing questions; empty if every template gave the answer away.
        asking: What a wording must ask.
        persona: Name and description; None on other axes.
    """

    axis: str
    case_id: str
    record: Record
    templates: tuple[str, ...]
    asking: Asking
    persona: tuple[str, str] | None = None

    @property
    def prompt(self) -> PromptName:
        """Prompt file of this axis."""
        return PROMPT_OF[self.axis]


def wanted_wordings(
    timestep: Timestep,
    *,
    axes: Sequence[str] = AXES,
    snapshot: Snapshot | None = None,
    personas: Path | None = None,
    case_ids: frozenset[str] | None = None,
) -> list[Wanted]:
    """List all records to be worded, by axis in the order of AXES and then by case.

    Args:
        axes: Some of AXES.
        snapshot: The newer snapshot of the timestep, for descriptions of relations; None if it is not available.
        personas: Folder of persona catalogues; None means the shipped one.
        case_ids: Cases to word; None means all.

    Raises:
        TimestepError: if an axis does not exist, the timestep's personas are unknown, or its questions name their day.
    """
    if timestep.manifest.get("settings", {}).get("ask_as_of"):
        raise TimestepError(
            f"The questions of {timestep.folder} name the day that they ask about, and a model's would not. "
            "Export the timestep without --ask-as-of."
        )
    unknown = [axis for axis in axes if axis not in AXES]
    if unknown:
        raise TimestepError(f"No model words the axis '{unknown[0]}'. It words: {', '.join(AXES)}.")
    tables = {name: timestep.table(name) for name in ("cases", "locality", "two_hops")}
    facts = pa.concat_tables([table.select(["property", "property_label"]) for table in tables.values()])
    language = read_language(language_of(timestep))
    speaking = voices(personas or shipped_personas(language.code))
    maker = _Maker(read_relations(facts, snapshot, language), {voice.persona: voice for voice in speaking}, language)
    cases = {
        row["case_id"]: row for row in tables["cases"].to_pylist() if case_ids is None or row["case_id"] in case_ids
    }
    rows: dict[str, list[dict[str, Any]]] = {
        "locality": [row for row in tables["locality"].to_pylist() if row["case_id"] in cases],
        "mhop": [row for row in tables["two_hops"].to_pylist() if row["chosen"] and row["case_id"] in cases],
    }
    found: list[Wanted] = []
    for axis in AXES:
        if axis in axes:
            found += maker.make(axis, cases, rows.get(axis, []))
    return found


@dataclass(frozen=True, slots=True)
class _Maker:
    relations: Mapping[str, Relation]
    voices: Mapping[str, Voice]
    language: Language
    spoken: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def make(self, axis: str, cases: Mapping[str, dict[str, Any]], rows: Sequence[dict[str, Any]]) -> Iterator[Wanted]:
        if axis == "mhop":
            return (self._two_hops(cases[row["case_id"]], row) for row in rows)
        if axis == "locality":
            return (self._fact(axis, row) for row in rows)
        if axis == "personas":
            return (self._persona(case) for case in cases.values() if case["persona"])
        make = {"update": self._update, "rephrase": self._rephrase}[axis]
        return (make(case) for case in cases.values())

    def _update(self, case: dict[str, Any]) -> Wanted:
        # A rephrasing that is kept must not become the question of the edit.
        kept = (*(case["rephrases"] or ()), case["rephrase"], case["personas"])
        return self._fact("update", case, *filter(None, kept))

    def _fact(self, axis: str, row: dict[str, Any], *unlike: str) -> Wanted:
        relation, subject = self.relations[row["property"]], _subject(row)
        record = {
            "subject": subject,
            "relation": relation.label,
            "relation_description": relation.description,
            "answer": row["object_label"],
        }
        asking = self._asking(row, row, (relation.stems | self._own_stems(row),), *unlike)
        return Wanted(axis=axis, case_id=row["case_id"], record=record, templates=(row["question"],), asking=asking)

    def _rephrase(self, case: dict[str, Any]) -> Wanted:
        said = self.relations[case["property"]].stems | self._own_stems(case)
        asking = self._asking(case, case, (said,), case["question"])
        templates = tuple(case["rephrases"] or ([case["rephrase"]] if case["rephrase"] else []))
        record = {"question": case["question"], "answer": case["object_label"]}
        return Wanted(axis="rephrase", case_id=case["case_id"], record=record, templates=templates, asking=asking)

    def _persona(self, case: dict[str, Any]) -> Wanted:
        voice = self.voices.get(case["persona"])
        if voice is None:
            raise TimestepError(
                f"The timestep has the persona '{case['persona']}', which is in no catalogue. Name the folder that it "
                "was made with: --personas FOLDER."
            )
        key = (case["property"], voice.persona)
        if key not in self.spoken:
            self.spoken[key] = voice_stems(self.relations[case["property"]].stems, voice.words)
        return Wanted(
            axis="personas",
            case_id=case["case_id"],
            record={"question": case["question"], "answer": case["object_label"]},
            templates=(case["personas"],) if case["personas"] else (),
            asking=self._asking(case, case, (self.spoken[key],), case["question"]),
            persona=(voice.persona, voice.description),
        )

    def _two_hops(self, case: dict[str, Any], hop: dict[str, Any]) -> Wanted:
        first, second = self.relations[case["property"]], self.relations[hop["property"]]
        record = {
            "chain": [_subject(case), first.label, MASK, second.label, hop["object_label"]],
            "relation_descriptions": [first.description, second.description],
        }
        hidden = (case["object_label"], *(case["object_aliases"] or ()))
        asking = self._asking(hop, case, (first.stems, second.stems), hidden=hidden)
        templates = (hop["question"], *(hop.get("rephrases") or ()))
        return Wanted(axis="mhop", case_id=case["case_id"], record=record, templates=templates, asking=asking)

    def _asking(
        self,
        row: dict[str, Any],
        first: dict[str, Any],
        relations: tuple[frozenset[str], ...],
        *unlike: str,
        hidden: tuple[str, ...] = (),
    ) -> Asking:
        return Asking(
            subject=self._needed(first),
            label=first["subject_label"],
            relations=relations,
            answer=row["object_label"],
            accepted=tuple(row["object_aliases"] or ()),
            hidden=hidden,
            unlike=unlike,
            language=self.language,
        )

    def _needed(self, row: dict[str, Any]) -> str:
        """The subject's name as a question must contain it, whose other words may be inflected."""
        name = row.get("name") or self.language.in_sentence(row["subject_label"])
        return self.language.needed_name(name.strip())

    def _own_stems(self, row: dict[str, Any]) -> frozenset[str]:
        """Stems of the template's question, which may come from a user's catalogue."""
        return expressing_stems([str(row["question"]).replace(self._needed(row), " ")], self.language)


def _subject(row: dict[str, Any]) -> str:
    """The subject as a wording must name it: with its disambiguating hint, without the article."""
    name = row.get("name") or row["subject_label"]
    return str(name).strip().removeprefix("the ")


@dataclass(frozen=True, slots=True)
class Relation:
    """Texts about a relation.

    Attributes:
        label: Name of the relation.
        description: Meaning, in a sentence or less.
        stems: Stems that express it; empty if all of its words are function words.
    """

    label: str
    description: str
    stems: frozenset[str]


def read_relations(facts: pa.Table, snapshot: Snapshot | None, language: Language = ENGLISH) -> dict[str, Relation]:
    """Read the relations of some facts, by PID.

    Args:
        facts: Columns property and property_label.
        snapshot: Snapshot whose descriptions and aliases are read. If it is None, or lacks the property's entity, the
            template's noun phrase is the description.
        language: Language of the questions.
    """
    templates: dict[str, list[dict[str, object]]] = {}
    catalogue = None if language.is_english else language_catalogue(language.code)
    for row in choose_templates(facts, catalogue=catalogue).to_pylist():
        templates.setdefault(row["property"], []).append(row)
    labels = dict(zip(facts["property"].to_pylist(), facts["property_label"].to_pylist(), strict=True))
    entities = _entities(snapshot, list(labels))
    found = {}
    for name, label in sorted(labels.items()):
        description, aliases = entities.get(name, ("", ()))
        rows = templates.get(name, [])  # None in another language for a property of the user's catalogue.
        said = [text for row in rows for text in wordings(row)]
        phrase = str(rows[0]["phrase"]).replace("{subject}", "the subject") if language.is_english else label
        expressing = stems([label, description, *aliases], language) | expressing_stems(said, language)
        found[name] = Relation(label, description or phrase, expressing)
    return found


def _entities(snapshot: Snapshot | None, properties: list[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    if snapshot is None:
        return {}
    rows = select(
        f"""
        SELECT id, coalesce(description, '') AS description, coalesce(aliases, []) AS aliases
        FROM read_parquet({literal(snapshot.entities)}) JOIN wanted USING (id) ORDER BY id
        """,
        wanted=pa.table({"id": properties}),
    ).to_pylist()
    return {row["id"]: (row["description"], tuple(row["aliases"])) for row in rows}


ANSWER_DIFFERS = "the answer is not the object's label or alias"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Requirements of a question.

    Attributes:
        subject: Name that must occur.
        relations: Stems by which each relation may be expressed; two for a two-hop question. An empty set is not
            checked.
        answer: Label of the object.
        label: Label of the subject; None means that `subject` has no hint.
        accepted: Aliases of the object.
        hidden: Label and then aliases of the entity in the middle.
        unlike: Questions that must not be repeated.
        language: Language of the questions.
    """

    subject: str
    relations: tuple[frozenset[str], ...]
    answer: str
    label: str | None = None
    accepted: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    language: Language = ENGLISH


def faults_of(records: Sequence[tuple[Asking, Sequence[str]]]) -> list[list[str | None]]:
    """First final filter that each text fails, by record and in order; None for a text that passes all.

    All records are in the same language.
    """
    facts, questions = [], []
    stems: dict[str, frozenset[str]] = {}
    for index, (asking, texts) in enumerate(records):
        relations = [f"{index}:{place}" for place in range(len(asking.relations))]
        stems.update(zip(relations, asking.relations, strict=True))
        names = {name: getattr(asking, name) for name in FACTS.names if name != "fact"}
        facts.append({"fact": str(index), **names})
        questions += [
            {"fact": str(index), "number": number, "relations": relations, "question": text}
            for number, text in enumerate(texts)
        ]
    judged = find_faults(
        pa.Table.from_pylist(questions, schema=QUESTIONS),
        pa.Table.from_pylist(facts, schema=FACTS),
        lambda relation, _: stems[relation],
        language=records[0][0].language if records else ENGLISH,
    )
    found: list[list[str | None]] = [[None] * len(texts) for _, texts in records]
    for row in judged.select(["fact", "number", "reason"]).to_pylist():
        found[int(row["fact"])][row["number"]] = row["reason"]
    return found


def is_answer(text: str, asking: Asking) -> bool:
    """Whether a text is the answer or another name of it, ignoring case and punctuation."""
    return letters(text) in {letters(name) for name in (asking.answer, *asking.accepted)}


def letters(text: str) -> str:
    """A text normalized as names are compared: lower case, single spaces, no punctuation."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain)) or plain.strip()
