"""The judge's second question, about answers that it called wrong: what is wrong with them.

Asked and read as strictly as verdicts are (kgedit.llm.judging). That an answer is empty needs no judge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from kgedit.llm.judging import cut, fenced, one_line
from kgedit.llm.remote.requests import ChatRequest, Message
from kgedit.records.error_classes import ErrorClass

CLASSES: Mapping[str, ErrorClass] = {
    "REPETITION": "repetition",
    "OUTDATED": "old answer",
    "IRRELEVANT": "irrelevant",
    "INCORRECT": "incorrect",
}
"""The judge's word -> the class that it stands for."""

_CLASS_TOKENS = 8
_MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """An answer that was called wrong.

    Attributes:
        question: As it was put, without its context.
        accepted: The right answer first, then its other names.
        outdated: Answers that were right before the edit.
        answer: What the model wrote.
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
        """What asks for its class, by the instructions "error_class"."""
        prompt = fenced(template, self._record())
        return ChatRequest(model=model, messages=(Message("user", prompt),), max_tokens=_CLASS_TOKENS)

    def read(self, reply: str) -> ErrorClass | None:
        """The class that a reply names; None if it names none, or an outdated answer where there is no such."""
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
