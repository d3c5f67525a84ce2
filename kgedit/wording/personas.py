"""Catalogues of personas, and their frames around a question, which change its voice but not its words.

Personas that reword a question are in kgedit.wording.voices. The persona and frame of a case depend on the seed and the
case id only, not on other cases.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.errors import TimestepError
from kgedit.resources import data_folder
from kgedit.wording.catalogues import content_hash, read_catalogue, refuse

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
