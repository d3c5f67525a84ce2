"""Personas: frames, which add a sentence before an unchanged question, and voices, which reword the question.

A voice has questions by type of answer with {relation}, and replacements for words of relations. {relation} is the
template's noun phrase, whose subject is not changed. Frames are easier for models. The persona of a case, and its frame
or question, depend on the seed and the case id only, not on other cases.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.errors import TimestepError
from kgedit.resources import data_folder
from kgedit.wording.catalogues import ENGLISH, MARK, Language, content_hash, read_catalogue, refuse

PERSONAS = pa.schema([("persona", pa.string()), ("frame_index", pa.int64()), ("frame", pa.string())])
"""persona, index of the frame in its catalogue (from 0), and text of the frame with {question}."""


def shipped_personas(language: str = "en") -> Path:
    """Folder of the shipped persona catalogues of a language, by its code."""
    folder = data_folder("prompts") / "personas"
    return folder if language == "en" else folder / language


def persona_table(folder: Path | None = None) -> pa.Table:
    """All frames of all personas, ordered by persona and frame index.

    Args:
        folder: Folder of YAML files of the same form as the shipped ones; None means the shipped one.

    Returns:
        A table with the schema PERSONAS.

    Raises:
        TimestepError: with all problems, if there is no catalogue or one breaks the contract of frames.
    """
    contents = sorted((content for _, content in persona_contents(folder)), key=lambda content: str(content["persona"]))
    rows = [
        {"persona": content["persona"], "frame_index": index, "frame": frame}
        for content in contents
        for index, frame in enumerate(content["frames"])
    ]
    return pa.Table.from_pylist(rows, schema=PERSONAS)


def persona_contents(folder: Path | None = None) -> list[tuple[Path, dict[str, Any]]]:
    """Checked contents of all catalogues of a folder, with their paths.

    Raises:
        TimestepError: see `persona_table`.
    """
    return [(path, _checked(path)) for path in _files(folder)]


def persona_version(folder: Path | None = None) -> str:
    """Content hash of the persona catalogues, for the provenance of a timestep."""
    return content_hash(_files(folder))


def persona_questions(questions: pa.Array, case_ids: pa.Array, *, seed: int, personas: pa.Table) -> pa.Table:
    """Put each case's question into a frame chosen by the case id and the seed.

    Args:
        questions: One question per case, ending in "?".
        case_ids: Case ids, in the same order.
        seed: Seed of the choice.
        personas: Result of `persona_table`.

    Returns:
        Columns persona and question, in the given order.
    """
    chosen = personas.take(pa.array(_chosen_rows(case_ids, seed, personas)))
    parts = pc.split_pattern(chosen["frame"], "{question}").combine_chunks()
    before, after = pc.list_element(parts, 0), pc.list_element(parts, 1)
    if isinstance(questions, pa.ChunkedArray):
        questions = questions.combine_chunks()
    framed = pc.binary_join_element_wise(before, questions, after, "")
    return pa.table({"persona": chosen["persona"], "question": framed})


def _chosen_rows(case_ids: pa.Array, seed: int, personas: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    # A keyed hash per case, not a random stream: removing one case must not change the frames of the others.
    key = str(seed).encode()
    digests = b"".join(
        hashlib.blake2b(case_id.encode(), digest_size=8, key=key).digest() for case_id in case_ids.to_pylist()
    )
    numbers = np.frombuffer(digests, dtype=">u8")
    names = personas["persona"].to_numpy(zero_copy_only=False)
    _, starts, sizes = np.unique(names, return_index=True, return_counts=True)
    persona = (numbers % len(starts)).astype(np.int64)
    frame = (numbers // np.uint64(len(starts)) % sizes[persona].astype(np.uint64)).astype(np.int64)
    return starts[persona].astype(np.int64) + frame


def _files(folder: Path | None) -> list[Path]:
    folder = folder or shipped_personas()
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise TimestepError(
            f"There is no persona catalogue (*.yaml) in {folder}. Put one there, or name another folder."
        )
    return files


def _checked(path: Path) -> dict[str, Any]:
    content = read_catalogue(path)
    problems = [f"the key '{key}' is missing" for key in ("persona", "version", "frames") if not content.get(key)]
    frames = content.get("frames") or []
    if not isinstance(frames, list):
        refuse(path, [*problems, "'frames' must be a list"])
    for index, frame in enumerate(frames):
        problems += [f"frame {index} {fault}" for fault in frame_faults(frame)]
    refuse(path, problems)
    return content


def frame_faults(frame: object) -> list[str]:
    """Problems of one frame."""
    if not isinstance(frame, str):
        return ["is not text"]
    faults = []
    rest = frame.replace("{question}", "", 1)
    if rest == frame or "{" in rest or "}" in rest:
        faults.append("must hold {question} exactly once, and no other brace")
    if not rest.strip():
        faults.append("adds nothing to the question")
    if not frame.endswith("{question}"):
        faults.append("does not end in {question}")
    if "?" in rest:
        faults.append("asks a separate question")
    if " ".join(frame.split()) != frame:
        faults.append("contains spaces at an end or in a row")
    return faults


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
