"""Subject, rephrasing and category by a language model behind a server; each reply is checked against the question.

If a reply fails its check or never arrives, the question keeps the wording by rules; such cases are counted and
reported.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kgedit.errors import ModelError
from kgedit.llm.contexts import Instructions
from kgedit.llm.remote.client import ChatClient, ChatReplies, CostEstimate
from kgedit.llm.remote.prices import TokenCounter
from kgedit.llm.remote.requests import ChatReply, ChatRequest, FailedCall, Message
from kgedit.progress import Advance
from kgedit.timesteps.qaedit import Category, Worded, english_categorizer
from kgedit.timesteps.qaedit.question_rules import Rephrasing, Subject, english_rephraser
from kgedit.wikidata.ids import plain_line
from kgedit.wording.name_index import composed, name_key

Part = Literal["subject", "rephrase", "category"]

PARTS: Mapping[Part, int] = {"subject": 48, "rephrase": 128, "category": 12}
"""Parts that a model may do, and the maximum number of tokens of its reply."""

_LIKELY: Mapping[Part, str] = {
    "subject": "Chamber of Deputies of Luxembourg",
    "rephrase": "Who is the author of the novel that was published in that year?",
    "category": "Geography & Environment",
}
_LONGEST = 2000
"""Maximum number of characters of a question that are sent."""

MODEL = "model"


@dataclass(frozen=True, slots=True)
class AskedParts:
    """Results of a model.

    Attributes:
        worded: Each question, in order.
        asked: Replies and costs, by part.
        kept: "part: reason" -> number of questions that keep the wording by rules.
    """

    worded: tuple[Worded, ...]
    asked: Mapping[Part, ChatReplies]
    kept: Mapping[str, int]


def requests_for(part: Part, questions: Sequence[str], model: str, instructions: Instructions) -> list[ChatRequest]:
    """Requests for one part of all questions."""
    template = instructions.texts[part]
    listed = "\n".join(english_categorizer().names)
    filled = template.replace("{categories}", listed)
    return [
        ChatRequest(
            model=model,
            messages=(Message("user", filled.replace("{question}", json.dumps(text[:_LONGEST], ensure_ascii=False))),),
            max_tokens=PARTS[part],
        )
        for text in questions
    ]


def estimate_parts(
    client: ChatClient,
    parts: Sequence[Part],
    questions: Sequence[str],
    *,
    model: str,
    instructions: Instructions,
    counter: TokenCounter,
) -> dict[Part, CostEstimate]:
    """Cost estimate by part; no server is called."""
    return {
        part: client.estimate(requests_for(part, questions, model, instructions), counter, likely_reply=_LIKELY[part])
        for part in parts
    }


def ask_parts(
    client: ChatClient,
    parts: Sequence[Part],
    questions: Sequence[str],
    by_rules: Sequence[Worded],
    *,
    model: str,
    instructions: Instructions,
    progress: Advance | None = None,
) -> AskedParts:
    """Use a model for some parts of the work.

    Args:
        parts: Parts to do; subjects always come first, because rephrasings are checked against them.
        questions: Questions as they will be asked.
        by_rules: Result of the rules for each question.
        model: Name of the model on its server.
        instructions: System prompts, of the group "qaedit".

    Raises:
        ModelError: if the server refuses, or the budget does not cover all requests; replies so far stay in the cache.
    """
    worded = list(by_rules)
    kept: Counter[str] = Counter()
    replies_by_part: dict[Part, ChatReplies] = {}
    for part in (part for part in PARTS if part in parts):
        replies_by_part[part] = asked = client.ask(
            requests_for(part, questions, model, instructions), progress=progress
        )
        if asked.not_asked:
            raise ModelError(
                f"The budget does not cover all: {asked.not_asked:,} of {len(questions):,} requests for the {part} are "
                f"not sent, ${asked.dollars or 0:.4f} are spent. Replies so far are kept and cost nothing when the "
                "command is given again, with a larger --budget."
            )
        for index, (question, reply) in enumerate(zip(questions, asked.replies, strict=True)):
            assert reply is not None
            read, reason = _READERS[part](question, worded[index], reply)
            worded[index] = read
            if reason:
                kept[f"{part}: {reason}"] += 1
    return AskedParts(tuple(worded), replies_by_part, dict(sorted(kept.items())))


_Read = tuple[Worded, str]
"""A question with the parsed reply, and the reason why the reply was rejected; "" if it was accepted."""


def _subject(question: str, words: Worded, reply: ChatReply | FailedCall) -> _Read:
    text, reason = _line(reply)
    if not reason and (not name_key(text) or text not in question):
        reason = "the reply is not part of the question"
    if not reason and len(text) > 0.9 * len(question):
        reason = "the reply is the question"
    if reason:
        return words, reason
    subject = Subject(text, MODEL)
    return dataclasses.replace(words, subject=subject, rephrasing=english_rephraser().rephrase(question, text)), ""


def _rephrase(question: str, words: Worded, reply: ChatReply | FailedCall) -> _Read:
    text, reason = _line(reply)
    subject = words.subject
    if not reason and name_key(text) == name_key(question):
        reason = "the reply repeats the question"
    if not reason and (not text.endswith("?") or "?" in text[:-1]):
        reason = "the reply is not one question"
    if not reason and len(text) > 3 * len(question):
        reason = "the reply is too long"
    if not reason and subject and f" {name_key(subject.text)} " not in f" {name_key(text)} ":
        reason = "the reply lacks the subject"
    return (words, reason) if reason else (dataclasses.replace(words, rephrasing=Rephrasing(text, MODEL)), "")


def _category(_question: str, words: Worded, reply: ChatReply | FailedCall) -> _Read:
    text, reason = _line(reply)
    name = next((name for name in english_categorizer().names if name.casefold() == text.strip(".").casefold()), None)
    if not reason and name is None:
        reason = "the reply is not a category"
    if reason or name is None:
        return words, reason
    return dataclasses.replace(words, category=Category(name, MODEL)), ""


_READERS: Mapping[Part, Callable[[str, Worded, ChatReply | FailedCall], _Read]] = {
    "subject": _subject,
    "rephrase": _rephrase,
    "category": _category,
}


def _line(reply: ChatReply | FailedCall) -> tuple[str, str]:
    """The only line of a reply, and an error; "" if there is none."""
    if isinstance(reply, FailedCall):
        return "", f"no reply: {reply.reason}"
    text = reply.text.strip()
    if not reply.finished or "\n" in text or not text:
        return "", "the reply is empty or more than a line"
    return plain_line(composed(text)), ""
