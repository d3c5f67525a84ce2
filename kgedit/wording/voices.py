"""Personas that reword questions: a new question built from the parts of a template, in the words of a voice.

A persona's catalogue has questions by type of answer with {relation}, and replacements for words of relations.
{relation} is the template's noun phrase, whose subject is not changed. Frames (kgedit.wording.personas) only add a
sentence before the unchanged question, which is easier for models.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.wording.catalogues import refuse
from kgedit.wording.languages import ENGLISH, MARK, Language
from kgedit.wording.personas import persona_contents

ASKS = ("person", "place", "number", "time", "thing")
"""Kinds of questions that a persona has; each type of answer uses one of them."""

_ASKED_AS = {
    "person": "person",
    "agent": "person",
    "place": "place",
    "number": "number",
    "time": "time",
}


@dataclass(frozen=True, slots=True)
class Voice:
    """One persona that rewords questions.

    Attributes:
        persona: Name of the persona.
        description: Description of the speaker, in one sentence.
        words: Replacements for words of relations.
        asks: Questions with {relation}, by kind (ASKS).
    """

    persona: str
    description: str
    words: Mapping[str, str]
    asks: Mapping[str, tuple[str, ...]]

    def relation(self, phrase: str) -> str:
        """A noun phrase in this voice; {subject} is not changed."""
        if not self.words:
            return phrase
        longest = sorted(self.words, key=lambda word: (-len(word), word))
        pattern = rf"\{{subject\}}|\b(?:{'|'.join(re.escape(word) for word in longest)})\b"
        spoken = re.sub(pattern, lambda found: self.words.get(found[0], found[0]), phrase)
        return " ".join(spoken.split())

    def ask(self, phrase: str, answer: str, number: int) -> str:
        """A template's question in this voice, with {subject}.

        Args:
            phrase: Noun phrase with {subject}.
            answer: Type of the answer, one of kgedit.wording.grammar.ANSWERS.
            number: Selects one of the questions, modulo their number.
        """
        asks = self.asks[_ASKED_AS.get(answer, "thing")]
        return asks[number % len(asks)].replace("{relation}", self.relation(phrase))


def voices(folder: Path | None = None) -> tuple[Voice, ...]:
    """Personas of a folder that reword questions, ordered by name.

    Args:
        folder: Folder of persona catalogues; None means the shipped one.

    Raises:
        TimestepError: if a catalogue breaks its contract, or no persona of the folder rewords questions.
    """
    found = []
    for path, content in persona_contents(folder):
        if "asks" in content:
            refuse(path, voice_faults(content))
            asks = {kind: tuple(texts) for kind, texts in content["asks"].items()}
            found.append(Voice(content["persona"], content["description"], content.get("words") or {}, asks))
    if not found:
        raise TimestepError(
            f"No persona in {folder} rewords a question. Give one 'asks', as prompts/personas has, or choose frames."
        )
    return tuple(sorted(found, key=lambda voice: voice.persona))


def voice_faults(content: Mapping[str, Any]) -> list[str]:
    """Problems of a persona's `asks` and `words`."""
    asks, words = content["asks"], content.get("words") or {}
    if not isinstance(asks, dict) or not isinstance(words, dict):
        return ["'asks' and 'words' must be mappings"]
    faults = [] if content.get("description") else ["the key 'description' is missing"]
    faults += [f"asks has no '{kind}'" for kind in ASKS if not asks.get(kind)]
    faults += [f"'{kind}' is none of {', '.join(ASKS)}" for kind in asks if kind not in ASKS]
    for kind, texts in asks.items():
        for text in texts or ():
            if not isinstance(text, str) or text.count("{relation}") != 1 or not re.fullmatch(r"[^?？]+[?？]", text):
                faults.append(f'{kind}: must hold {{relation}} once and end in its only "?": {text}')
    faults += [f"the words for '{word}' are not text" for word, spoken in words.items() if not isinstance(spoken, str)]
    return faults


def reworded(parts: pa.Table, *, seed: int, chosen: tuple[Voice, ...], language: Language = ENGLISH) -> pa.Table:
    """Reword each case's question in the voice of a persona chosen by the case id and the seed.

    Args:
        parts: Columns case_id, phrase (with {subject}), answer_type and name (of the subject).
        seed: Seed of the choice of personas and questions.
        chosen: Result of `voices`.
        language: Language of the phrases and personas, whose rules inflect the phrase and the name.

    Returns:
        Columns persona and question, in the given order.
    """
    rows = []
    for row in parts.select(["case_id", "phrase", "answer_type", "name"]).to_pylist():
        number = keyed_number(row["case_id"], seed)
        voice = chosen[number % len(chosen)]
        phrase = row["phrase"] if language.is_english else MARK + row["phrase"]
        asked = voice.ask(phrase, row["answer_type"], number // len(chosen)).replace("{subject}", row["name"])
        asked = asked if language.is_english else language.join(asked)
        rows.append({"persona": voice.persona, "question": asked[0].upper() + asked[1:]})
    return pa.Table.from_pylist(rows, schema=pa.schema([("persona", pa.string()), ("question", pa.string())]))


def keyed_number(case_id: str, seed: int) -> int:
    """A number that depends on one case only, so that removing another case does not change its persona."""
    return int.from_bytes(hashlib.blake2b(case_id.encode(), digest_size=8, key=str(seed).encode()).digest(), "big")


def overlap(question: str, other: str) -> float:
    """Lexical overlap of two questions: shared words over all words (Jaccard), in [0, 1]."""
    one, two = set(re.findall(r"\w+", question.casefold())), set(re.findall(r"\w+", other.casefold()))
    return len(one & two) / len(one | two) if one | two else 1.0
