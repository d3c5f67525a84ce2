"""The judge's question and its verdict: whether what a model wrote answers a question, in the eyes of another model.

What is judged was written by models and by the editors of Wikidata, who may write "reply CORRECT": it goes into the
prompt as one JSON object between two fence lines that it cannot contain, because they hash it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kgedit.llm.remote.requests import ChatRequest, Message

Verdict = Literal["CORRECT", "INCORRECT"]

VERDICTS: tuple[Verdict, Verdict] = ("CORRECT", "INCORRECT")

VERDICT_TOKENS = 8
"""Most tokens of a verdict: either word is fewer in every tokenizer, and an explanation is cut soon."""

_LONGEST = 2000
"""Characters of a field that are shown: an answer that has not come to the point by then never does."""

_MOST_ACCEPTED = 20


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be judged.

    Attributes:
        question: As it was put, without its context.
        accepted: The right answer first, then its other names.
        answer: What the model wrote.
    """

    question: str
    accepted: tuple[str, ...]
    answer: str

    @property
    def key(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self._record().encode()).hexdigest()

    def prompt(self, template: str) -> str:
        """The text that asks for a verdict, by the instructions "verdict" (kgedit.llm.instructions)."""
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
    """The request for a verdict, by the instructions "verdict"."""
    return ChatRequest(model=model, messages=(Message("user", judgement.prompt(template)),), max_tokens=VERDICT_TOKENS)


def read_verdict(text: str) -> Verdict | None:
    """The verdict that a reply is, in either case and with or without a full stop; None if it is anything else."""
    word = text.strip().removesuffix(".").upper()
    return next((verdict for verdict in VERDICTS if word == verdict), None)


def fenced(template: str, record: str) -> str:
    """A template with a record between two lines that the record cannot contain."""
    fence = f"=== {hashlib.sha256(record.encode()).hexdigest()[:16]} ==="
    # The record comes last: what stands in it is never taken for a slot.
    return template.replace("{fence}", fence).replace("{record}", record)


def one_line(shown: Mapping[str, object]) -> str:
    """A JSON object on one line, whatever its texts hold."""
    text = json.dumps(shown, ensure_ascii=False)
    # JSON leaves these as they are, and to a model they end the line.
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")


def cut(text: str) -> str:
    """As much of a text as a judge is shown."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
