"""Disk cache of unedited models' answers: across runs, each model is asked each question only once.

One file per model fingerprint, one JSON line per answer; an incomplete last line is removed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from kgedit.checksums import decoding
from kgedit.files import append_lines, cut_half_line, read_lines
from kgedit.llm.generation import Question
from kgedit.llm.replies import Reply
from kgedit.records.runs import Preset

_VERSION = 2
"""Version of the stored fields. Older ones lack probabilities and the match ratio of free answers."""


class AnswerCache:
    """Replies of one unedited model.

    Args:
        path: Cache file of the model.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        cut_half_line(path)
        with decoding(path, fix="Remove it: its answers are generated again."):
            self._replies = {row["key"]: Reply(**row["reply"]) for row in map(json.loads, read_lines(path))}

    def get(self, question: Question, preset: Preset) -> Reply | None:
        """The stored reply, or None."""
        return self._replies.get(_key(question, preset))

    def add(self, questions: list[Question], replies: list[Reply], preset: Preset) -> None:
        """Store the replies to a batch of questions."""
        rows = {_key(question, preset): reply for question, reply in zip(questions, replies, strict=True)}
        new = {key: reply for key, reply in rows.items() if key not in self._replies}
        lines = [json.dumps({"key": key, "reply": asdict(reply)}, ensure_ascii=False) for key, reply in new.items()]
        append_lines(self._path, lines)
        self._replies.update(new)


def _key(question: Question, preset: Preset) -> str:
    forced = preset.is_forced
    parts: list[object] = [
        _VERSION,
        question.prompt,
        question.gold,
        question.old if forced else (),
        preset.generation,
        preset.truncation,
        preset.max_new_tokens,
    ]
    if forced and (question.static or question.alternatives):
        parts += [question.static, question.alternatives]
    if preset.stop_entropy is not None:  # presets without it keep the keys of earlier versions
        parts.append({"stop_entropy": preset.stop_entropy})
    if preset.thinking_tokens:
        parts.append({"thinking_tokens": preset.thinking_tokens})
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:32]
