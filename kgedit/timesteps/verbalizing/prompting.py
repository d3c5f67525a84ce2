"""Requests for wordings, from the files under prompts/verbalizer, and the parser of their replies.

Examples are earlier turns of the chat, so that all requests of an axis share a prefix; the record, which contains
untrusted text, is the last message, as one line of JSON and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from kgedit.errors import TimestepError
from kgedit.llm.remote.requests import ChatRequest, Message
from kgedit.resources import data_folder
from kgedit.wording.catalogues import content_hash, read_catalogue, refuse

PromptName = Literal["fact", "rephrase", "personas", "two_hops", "statements"]

PROMPTS: tuple[PromptName, ...] = get_args(PromptName)

LONGEST = 200
"""Maximum number of characters of a label or description that are sent; a given question may be five times as long."""

Record = Mapping[str, str | Sequence[str]]
"""Input of one request, in the order in which it is sent."""


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """One worked example.

    Attributes:
        given: The record.
        texts: Texts of the reply to it.
    """

    given: Record
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One file under prompts/verbalizer.

    Attributes:
        name: Name of the file.
        version: Raised with every change.
        instructions: System prompt with {form}, and {persona} for a persona's description.
        examples: Examples by persona; those under "" are for all.
        texts: Number of texts asked for.
        unit: Name of the fields of a reply, "question" or "statement".
        max_tokens: Maximum number of tokens of a reply.
    """

    name: str
    version: int
    instructions: str
    examples: Mapping[str, tuple[WorkedExample, ...]]
    texts: int
    unit: str
    max_tokens: int

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the texts in a reply."""
        if self.texts == 1:
            return (self.unit,)
        return tuple(f"{self.unit}_{number}" for number in range(1, self.texts + 1))

    @property
    def schema(self) -> str:
        """JSON schema of a reply, in the subset that the strict modes of servers share."""
        names = [*self.fields, "answer"]
        properties = {name: {"type": "string"} for name in names}
        schema = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
        return json.dumps(schema)

    def reply(self, texts: Sequence[str], answer: str) -> str:
        """A reply of the right form with these texts."""
        return _one_line({**dict(zip(self.fields, texts, strict=True)), "answer": answer})

    def read(self, reply: str) -> tuple[tuple[str, ...], str] | None:
        """Parse the texts and the answer of a reply; None if it does not match the requested form exactly.

        A code fence around the object, as chat models often add, is removed.
        """
        fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", reply, re.DOTALL)
        try:
            found = json.loads(fenced[1] if fenced else reply, object_pairs_hook=_without_twice)
        except (ValueError, RecursionError):
            return None
        names = (*self.fields, "answer")
        if not isinstance(found, dict) or set(found) != set(names):
            return None
        if not all(isinstance(found[name], str) for name in names):
            return None
        return tuple(found[name].strip() for name in self.fields), found["answer"].strip()


def read_prompt(name: PromptName, folder: Path | None = None) -> Prompt:
    """Read a prompt file.

    Args:
        folder: Folder of files with the names and form of the shipped ones; None means these.

    Raises:
        TimestepError: if the file breaks its contract; lists all problems.
    """
    return _read(name, (folder or _shipped()) / f"{name}.yaml")


def prompts_version(folder: Path | None = None) -> str:
    """Content hash of the prompt files, for the provenance of a timestep."""
    return content_hash([(folder or _shipped()) / f"{name}.yaml" for name in PROMPTS])


def request_for(
    prompt: Prompt, record: Record, *, model: str, structured: bool, persona: tuple[str, str] | None = None
) -> ChatRequest:
    """Build the request for the wordings of one record.

    Args:
        model: Name of the model on the server.
        structured: Whether to send the JSON schema of the reply.
        persona: Name and description, for the prompt "personas".
    """
    name, description = persona or ("", "")
    shown = ", ".join(f'"{field}": "..."' for field in (*prompt.fields, "answer"))
    instructions = prompt.instructions.replace("{form}", f"{{{shown}}}").replace("{persona}", description)
    turns = [Message("system", instructions)]
    for example in prompt.examples.get(name, prompt.examples.get("", ())):
        turns.append(Message("user", _one_line(example.given)))
        turns.append(Message("assistant", prompt.reply(example.texts, _answer_of(example.given))))
    turns.append(Message("user", _one_line({key: _cut(key, value) for key, value in record.items()})))
    schema = prompt.schema if structured else None
    return ChatRequest(model=model, messages=tuple(turns), max_tokens=prompt.max_tokens, schema=schema)


def _answer_of(record: Record) -> str:
    """Text that the answer of a reply must repeat."""
    if "chain" in record:
        return record["chain"][-1]
    return str(record.get("answer", record.get("object")))


def _cut(name: str, value: str | Sequence[str]) -> str | list[str]:
    if not isinstance(value, str):
        return [str(_cut(name, text)) for text in value]
    most = LONGEST * (5 if name == "question" else 1)
    return value if len(value) <= most else f"{value[:most]}…"


def _one_line(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False)
    # JSON leaves these unescaped, and a model reads them as ends of lines; others reorder or hide the text after them.
    return re.sub("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _without_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)


def _shipped() -> Path:
    return data_folder("prompts") / "verbalizer"


def _read(name: str, path: Path) -> Prompt:
    return _prompt(name, path, content_hash([path]) if path.is_file() else "")


@lru_cache(maxsize=16)
def _prompt(name: str, path: Path, _version: str) -> Prompt:
    """`_version`, the hash of the file, gives a changed file a new cache entry."""
    content = read_catalogue(path)
    needed = ("version", "questions", "max_tokens", "instructions", "examples")
    refuse(path, [f"the key '{key}' is missing" for key in needed if not content.get(key)])
    by_persona = content["examples"] if isinstance(content["examples"], dict) else {"": content["examples"]}
    texts = content["questions"]
    try:
        examples = {
            persona: tuple(WorkedExample(one["given"], tuple(one["questions"])) for one in own)
            for persona, own in by_persona.items()
        }
    except (TypeError, KeyError) as error:
        raise TimestepError(f"{path}: an example lacks {error}. Give each 'given' and 'questions'.") from error
    problems = [
        f"an example of '{persona}' has {len(one.texts)} texts, not {texts}"
        for persona, own in examples.items()
        for one in own
        if len(one.texts) != texts
    ]
    if "{form}" not in content["instructions"]:
        problems.append("the instructions must hold {form}")
    refuse(path, problems)
    return Prompt(
        name=name,
        version=content["version"],
        instructions=content["instructions"],
        examples=examples,
        texts=texts,
        unit=content.get("unit", "question"),
        max_tokens=content["max_tokens"],
    )
