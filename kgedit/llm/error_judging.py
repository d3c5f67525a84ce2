"""Classification by the judge of answers that it called incorrect.

Prompts and replies are handled as strictly as those of verdicts (kgedit.llm.judging). Empty answers need no judge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from kgedit.llm.judging import cut, fenced, one_line
from kgedit.llm.remote.requests import ChatRequest, Message
from kgedit.records.answers import ErrorClass

CLASSES: Mapping[str, ErrorClass] = {
    "REPETITION": "repetition",
    "OUTDATED": "old answer",
    "IRRELEVANT": "irrelevant",
    "INCORRECT": "incorrect",
}
"""Word of the judge -> error class."""

_CLASS_TOKENS = 8
_MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """An answer that the judge called incorrect.

    Attributes:
        question: The question as asked, without its context.
        accepted: The correct answer first, then its aliases.
        outdated: Answers that were correct before the edit.
        answer: The model's answer.
    """

    question: str
    accepted: tuple[str, ...]
    outdated: tuple[str, ...]
    answer: str

    @property
    def key(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self._record().encode()).hexdigest()

    def request(self, model: str, template: str) -> ChatRequest:
        """Request for the error class, with the instructions "error_class"."""
        prompt = fenced(template, self._record())
        return ChatRequest(model=model, messages=(Message("user", prompt),), max_tokens=_CLASS_TOKENS)

    def read(self, reply: str) -> ErrorClass | None:
        """The class named by a reply; None if it names none, or names "outdated" and no outdated answers exist."""
        found = CLASSES.get(reply.strip().removesuffix(".").upper())
        return None if found == "old answer" and not self.outdated else found

    def _record(self) -> str:
        return one_line(
            {
                "question": cut(self.question),
                "accepted": [cut(text) for text in self.accepted[:_MOST_NAMES]],
                "outdated": [cut(text) for text in self.outdated[:_MOST_NAMES]],
                "answer": cut(self.answer),
            }
        )
