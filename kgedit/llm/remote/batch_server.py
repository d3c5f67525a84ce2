"""Calls of the Batch API (upload, create, look up, find, download) and the lines of its files.

Each call returns a reply or raises a CallError. Requests and results of a batch are joined by id: a line is accepted
only if it is complete and belongs to a request of this batch; of two lines for one request the first is accepted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kgedit.llm.remote.accepted_parameters import AcceptedParameters
from kgedit.llm.remote.owners import Completion, Owners
from kgedit.llm.remote.requests import ChatReply, ChatRequest
from kgedit.llm.remote.server import CallError, ServerConnection, decode_completion, server_text

MARK = "kgedit"
"""Metadata key by which a batch can be found again."""


_PAGES = 50
"""Maximum pages of the list of batches searched for a mark: the server lists the newest first, and a batch whose reply
was lost is one of the newest."""
_OFFERED = "the Batch API"


class Batch(msgspec.Struct, frozen=True):
    """State of a batch as reported by the server.

    Attributes:
        id: The server's id.
        status: "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling" or
            "cancelled".
        output_file_id: File with the replies, once there are any.
        error_file_id: File with the failed requests.
        errors: Errors of the batch as a whole.
        metadata: Metadata, including kgedit's mark.
        request_counts: Numbers of requests: total, completed and failed.
    """

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: Any = None
    metadata: dict[str, str] | None = None
    request_counts: dict[str, int] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the batch has reached a final state."""
        return self.status in {"completed", "failed", "expired", "cancelled"}


class _File(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    data: list[Batch]
    has_more: bool = False


class BatchCalls:
    """Calls over one connection."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def upload(self, content: bytes) -> str:
        """Upload the lines of a batch and return the file id. Free of charge, so it can be repeated."""
        sent = self._connection.send(
            lambda client: (
                client.files.with_raw_response.create(file=("batch.jsonl", content), purpose="batch").content
            ),
            refused=_OFFERED,
        )
        return _decoded(sent, _File).id

    def create(self, file_id: str, mark: str) -> Batch:
        """Start a batch. It may be charged from now on, even if no response arrives."""
        sent = self._connection.send(
            lambda client: (
                client.batches.with_raw_response.create(
                    input_file_id=file_id,
                    endpoint="/v1/chat/completions",
                    completion_window="24h",
                    metadata={MARK: mark},
                ).content
            ),
            refused=_OFFERED,
        )
        return _decoded(sent, Batch)

    def look_up(self, batch_id: str) -> Batch:
        """Return the current state of a batch."""
        sent = self._connection.send(
            lambda client: client.batches.with_raw_response.retrieve(batch_id).content,
            refused=f"the batch {batch_id}",
        )
        found = _decoded(sent, Batch)
        if found.id != batch_id:
            raise CallError("the state of another batch", again=True)
        return found

    def find(self, mark: str) -> Batch | None:
        """Find the batch with a mark among the newest; None if there is none."""
        after: str | None = None
        for _ in range(_PAGES):
            page = self._page(after)
            for batch in page.data:
                if (batch.metadata or {}).get(MARK) == mark:
                    return batch
            if not page.has_more or not page.data:
                return None
            after = page.data[-1].id
        return None

    def download(self, file_id: str) -> bytes:
        """Download the content of a file, which may be truncated."""
        return self._connection.send(
            lambda client: client.files.with_raw_response.content(file_id).content, refused=f"the file {file_id}"
        )

    def _page(self, after: str | None) -> _Page:
        given = {"limit": 100} if after is None else {"limit": 100, "after": after}
        sent = self._connection.send(
            lambda client: client.batches.with_raw_response.list(**given).content, refused=_OFFERED
        )
        return _decoded(sent, _Page)


_Form = TypeVar("_Form")


def _decoded(content: bytes, form: type[_Form]) -> _Form:
    with suppress(msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(content, type=form)
    raise CallError("cut or invalid JSON", again=True)


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
        details: Reason -> first explanation of an error with this reason.
        rejected: Key -> explanation, for requests with status 400.
        strange: Reason -> number of lines that belong to no request, are duplicates, or are invalid.
        owners: Requests that completions were accepted for; passed on from batch to batch.
    """

    replies: dict[str, ChatReply] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    strange: Counter[str] = field(default_factory=Counter)
    owners: Owners = field(default_factory=Owners)

    def add(self, content: bytes, keys: Collection[str]) -> None:
        """Add the lines of one file.

        Args:
            content: Content of the file.
            keys: Keys of the requests of this batch.
        """
        whole: list[tuple[str, Completion]] = []
        for line in content.split(b"\n"):
            if line.strip():
                self._read(line, keys, whole)
        # If a server gives every completion the same id, the id carries no information.
        telling = len({completion.id for _, completion in whole}) > 1 or len(whole) == 1
        for key, completion in whole:
            self._take(key, completion, telling=telling)

    def _read(self, text: bytes, keys: Collection[str], whole: list[tuple[str, Completion]]) -> None:
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
            reason = self.failed.setdefault(key, _expired(line) or state)
            if detail := _detail(line):
                self.details.setdefault(reason, detail)
                if reason == "400":
                    self.rejected[key] = detail
        else:
            try:
                whole.append((key, decode_completion(bytes(line.response.body))))
            except CallError as error:
                self.failed.setdefault(key, error.reason)

    def _take(self, key: str, completion: Completion, *, telling: bool) -> None:
        if key in self.replies:
            self.strange["a second line of a request"] += 1
        elif telling and completion.id and self.owners.is_anothers(completion, key):
            self.failed.setdefault(key, "the reply of another request")
        else:
            self.replies[key] = completion.reply
            self.failed.pop(key, None)


def batch_lines(requests: Mapping[str, ChatRequest], accepted: AcceptedParameters) -> list[bytes]:
    """Build a line for each request, with its key as id and the parameters that the server accepts."""
    return [
        json.dumps(
            {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": _sent(accepted.body(request))},
            ensure_ascii=False,
        ).encode()
        + b"\n"
        for key, request in requests.items()
    ]


def _sent(body: dict[str, Any]) -> dict[str, Any]:
    """The body as openai's client sends it, with the fields that it does not know beside the others."""
    extra: dict[str, Any] = body.pop("extra_body", {})
    return body | extra


class _Error(msgspec.Struct):
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Error


def _detail(line: _Line) -> str:
    """Message of the error of a rejected request; "" if it has none."""
    with suppress(msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        if line.response is not None:
            return server_text(msgspec.json.decode(bytes(line.response.body), type=_ErrorBody).error.message)
    return ""


def _expired(line: _Line) -> str | None:
    try:
        error = msgspec.json.decode(bytes(line.error))
    except msgspec.DecodeError:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    return str(code) if code else None
