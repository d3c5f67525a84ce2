"""Lines of the Batch API: requests and results of a batch, joined by id.

A line is accepted only if it is complete and belongs to a request of this batch; of two lines for one request the first
is accepted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from kgedit.llm.remote.requests import ChatReply, ChatRequest
from kgedit.llm.remote.server import CallError, decode_completion

CUT = "cut or invalid line"


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(slots=True)
class Results:
    """Content of the result files of a batch.

    Attributes:
        replies: Replies by key of the request.
        failed: Key -> reason, for requests that returned an error.
        strange: Reason -> number of lines that belong to no request, are duplicates, or are invalid.
        owners: Completion id -> request that it was accepted for; passed on from batch to batch.
    """

    replies: dict[str, ChatReply] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    strange: Counter[str] = field(default_factory=Counter)
    owners: dict[str, str] = field(default_factory=dict)

    def add(self, content: bytes, keys: Collection[str]) -> None:
        """Add the lines of one file.

        Args:
            content: Content of the file.
            keys: Keys of the requests of this batch.
        """
        whole: list[tuple[str, str | None, ChatReply]] = []
        for line in content.split(b"\n"):
            if line.strip():
                self._read(line, keys, whole)
        # If a server gives every completion the same id, the id carries no information.
        telling = len({completion for _, completion, _ in whole}) > 1 or len(whole) == 1
        for key, completion, reply in whole:
            self._take(key, completion if telling else None, reply)

    def _read(self, text: bytes, keys: Collection[str], whole: list[tuple[str, str | None, ChatReply]]) -> None:
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.strange[CUT] += 1
            return
        key = line.custom_id
        if key not in keys:
            self.strange["a line of no request"] += 1
        elif line.response is None or line.response.status_code != 200:
            state = "batch error" if line.response is None else str(line.response.status_code)
            self.failed.setdefault(key, _expired(line) or state)
        else:
            try:
                whole.append((key, *decode_completion(bytes(line.response.body))))
            except CallError as error:
                self.failed.setdefault(key, error.reason)

    def _take(self, key: str, completion: str | None, reply: ChatReply) -> None:
        if key in self.replies:
            self.strange["a second line of a request"] += 1
        elif completion and self.owners.setdefault(completion, key) != key:
            self.failed.setdefault(key, "the reply of another request")
        else:
            self.replies[key] = reply
            self.failed.pop(key, None)


def batch_lines(requests: Mapping[str, ChatRequest]) -> list[bytes]:
    """Build a line for each request, with its key as id."""
    return [
        json.dumps(
            {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": request.body()},
            ensure_ascii=False,
        ).encode()
        + b"\n"
        for key, request in requests.items()
    ]


def _expired(line: _Line) -> str | None:
    try:
        error = msgspec.json.decode(bytes(line.error))
    except msgspec.DecodeError:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    return str(code) if code else None
