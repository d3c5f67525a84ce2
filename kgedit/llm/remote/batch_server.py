"""Calls of the Batch API: upload, create, look up, find, download; each returns a reply or raises a CallError.

Ids and states are decoded here, result lines in kgedit.llm.remote.batch_lines.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from kgedit.llm.remote.server import CallError, ServerConnection

MARK = "kgedit"
"""Metadata key by which a batch can be found again."""

_PAGES = 50
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


_Told = TypeVar("_Told")


def _decoded(content: bytes, form: type[_Told]) -> _Told:
    with suppress(msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(content, type=form)
    raise CallError("cut or invalid JSON", again=True)
