"""Prompts and verdicts of the judge, a model that decides whether another model's answer is correct.

The judge also classifies the answers that it called incorrect; empty answers need no judge.

The judged text comes from models and from editors of Wikidata and may contain "reply CORRECT". It is put into the
prompt as a JSON object between two fence lines that it cannot contain, because they are a hash of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from kgedit.llm.remote.requests import ChatRequest, Message
from kgedit.records.answers import ErrorClass

Verdict = Literal["CORRECT", "INCORRECT"]


VERDICTS: tuple[Verdict, Verdict] = get_args(Verdict)


VERDICT_TOKENS = 8
"""Maximum tokens of a verdict: either word is shorter in every tokenizer, and explanations are cut off early."""


_LONGEST = 2000
"""Maximum number of characters shown of a field: an answer that has not come to the point by then never does."""


_MOST_ACCEPTED = 20
"""Maximum accepted answers shown to a judge: some items have a hundred aliases, and every one is paid for."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """An answer to be judged.

    Attributes:
        question: The question as asked, without its context.
        accepted: The correct answer first, then its aliases.
        answer: The model's answer.
    """

    question: str
    accepted: tuple[str, ...]
    answer: str

    @property
    def key(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self._record().encode()).hexdigest()

    def prompt(self, template: str) -> str:
        """Prompt for a verdict, with the instructions "verdict" (kgedit.llm.contexts)."""
        return fenced(template, self._record())

    def _record(self) -> str:
        return one_line(
            {
                "question": cut(self.question),
                "accepted": [cut(text) for text in self.accepted[:_MOST_ACCEPTED]],
                "answer": cut(self.answer),
            }
        )


def judge_request(judgement: Judgement, model: str, template: str) -> ChatRequest:
    """Build the request for a verdict, with the instructions "verdict"."""
    return ChatRequest(model=model, messages=(Message("user", judgement.prompt(template)),), max_tokens=VERDICT_TOKENS)


def read_verdict(text: str) -> Verdict | None:
    """Parse a verdict, in upper or lower case and with or without a full stop; None if the reply is anything else."""
    word = text.strip().removesuffix(".").upper()
    return next((verdict for verdict in VERDICTS if word == verdict), None)


def fenced(template: str, record: str) -> str:
    """Insert a record into a template, between two lines that the record cannot contain."""
    # A record that contained the fence would have to contain its own hash.
    fence = f"=== {hashlib.sha256(record.encode()).hexdigest()[:16]} ==="
    # The record is inserted last, so that its content is never taken for a slot.
    return template.replace("{fence}", fence).replace("{record}", record)


def one_line(shown: Mapping[str, object]) -> str:
    """A JSON object on one line, whatever its texts contain."""
    text = json.dumps(shown, ensure_ascii=False)
    # JSON does not escape these, and for a model they end the line.
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")


def cut(text: str) -> str:
    """Truncate a text to the length shown to a judge."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


CLASSES: Mapping[str, ErrorClass] = {
    "REPETITION": "repetition",
    "OUTDATED": "old answer",
    "IRRELEVANT": "irrelevant",
    "INCORRECT": "incorrect",
}
"""Word of the judge -> error class."""


_CLASS_TOKENS = 8
"""Maximum tokens of a reply: the name of a class, and the quotes or the full stop that models add."""
_MOST_NAMES = 20  # as _MOST_ACCEPTED


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
