"""One call of an OpenAI-compatible server: a reply, or an error with advice whether to retry; and the pace of calls.

Replies are decoded here and not by openai, which does not validate fields: a reply that is truncated, has no text, or
belongs to another request must never be accepted.

"Too many requests" applies to all calls, not only to the rejected one: all threads wait as long as the server asks,
then half as many calls may run, and one more after each round of successes.
"""

from __future__ import annotations

import base64
import datetime
import email.utils
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, Literal

import msgspec

from kgedit.errors import MissingExtraError, ModelError
from kgedit.llm.remote.accepted_parameters import AcceptedParameters
from kgedit.llm.remote.owners import Completion
from kgedit.llm.remote.requests import ChatReply, ModelRequest
from kgedit.llm.replies import without_thoughts
from kgedit.untrusted import split_credentials

OPENAI = "https://api.openai.com/v1"


_AGAIN = frozenset({408, 409, 425, 429})
"""Transient states, in addition to 5xx."""


_LONGEST_PAUSE = 600.0
"""Maximum seconds for which a server's Retry-After is followed."""


_POINTLESS = frozenset({401, 402, 403, 404})
"""States that every other request would get too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatServer:
    """Address, key and timeout of a server.

    Attributes:
        url: Base URL, including "/v1". A user and password in it are moved to `credentials`, so that the URL can be
            stored and shown.
        key_variable: Environment variable with the key; a local server may need none.
        timeout: Seconds for one attempt.
        credentials: User and password, sent as Basic authorization instead of the key; None means no credentials.
    """

    url: str = OPENAI
    key_variable: str = "OPENAI_API_KEY"
    timeout: float = 60.0
    credentials: tuple[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Move the credentials out of the URL."""
        url, credentials = split_credentials(self.url)
        if credentials is not None:
            object.__setattr__(self, "url", url)
            object.__setattr__(self, "credentials", credentials)


class CallError(Exception):
    """An attempt without a reply.

    Attributes:
        reason: Short text, the same for all failures of this kind, so that they can be counted.
        again: Whether another attempt may succeed.
        after: Seconds that the server asks to wait; None if not given.
        slow_down: Whether the server reported too many requests.
        detail: Explanation that the server gave, truncated; "" if it gave none.
    """

    def __init__(
        self, reason: str, *, again: bool, after: float | None = None, slow_down: bool = False, detail: str = ""
    ) -> None:
        super().__init__(f"{reason}; the server says: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.again = again
        self.after = after
        self.slow_down = slow_down


class RefusedError(ModelError):
    """The server refuses every call like this one.

    Attributes:
        status: Status of its response.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class OtherParametersError(Exception):
    """The server did not accept parameters of a request, which further attempts send under other names or leave out."""


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None  # vLLM up to 0.11, SGLang, DeepSeek
    reasoning: str | None = None  # later versions of vLLM, and OpenRouter
    refusal: Any = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    id: str | None = None
    created: Any = None
    usage: _Usage | None = None


_COMPLETIONS = msgspec.json.Decoder(_Completion)
"""Made here, because msgspec 0.22 crashes if several threads decode the first object of a type at the same time."""


class ServerConnection:
    """An open connection to one server; may be used from several threads.

    Args:
        accepted: Parameters that the server accepts, shared by connections; None starts without any differences.

    Raises:
        ModelError: if there is no key for a server that is not local.
    """

    def __init__(self, server: ChatServer, accepted: AcceptedParameters | None = None) -> None:
        try:
            import openai
        except ModuleNotFoundError as error:
            raise MissingExtraError("openai", "openai") from error
        self._openai: Any = openai
        self._server = server
        self._accepted = accepted or AcceptedParameters()
        # The caller retries, because it knows all threads and the budget.
        self._client: Any = openai.OpenAI(
            base_url=server.url,
            api_key=_key(server),
            timeout=server.timeout,
            max_retries=0,
            default_headers=_authorization(server),
        )

    def close(self) -> None:
        """Close all sockets."""
        self._client.close()

    def call(self, request: ModelRequest, sent: AcceptedParameters) -> Completion:
        """Send one request, without retries.

        Args:
            request: The request.
            sent: Differences from its parameters with which it is sent.

        Raises:
            CallError: if no complete reply arrived.
            OtherParametersError: if the server does not accept parameters that the next attempt leaves out.
            ModelError: if no request to this server can succeed: wrong key, wrong model, wrong address, no credit.
        """
        try:
            content = self._complete(request, sent.body(request))
        except CallError as error:
            if error.reason == "400":
                self._accepted.learn(error.detail, request.model)
                if self._accepted.body(request) != sent.body(request):
                    raise OtherParametersError from error
            raise
        return decode_completion(content, request.endpoint)

    def _complete(self, request: ModelRequest, body: dict[str, Any]) -> bytes:
        return self.send(
            lambda client: _completions(client, request).with_raw_response.create(**body).content,
            refused=f"the model '{request.model}'",
        )

    def send(self, call: Callable[[Any], bytes], *, refused: str) -> bytes:
        """Make one call of the package openai.

        Args:
            call: Function of openai's client that returns the content of the server's response.
            refused: For the message: what the server rejects if no such call can succeed.

        Raises:
            CallError: if no response arrived, or the error is transient or specific to this call.
            ModelError: if no such call to this server can succeed.
        """
        openai = self._openai
        try:
            return call(self._client)
        except openai.APITimeoutError as error:
            raise CallError("timeout", again=True) from error
        except openai.APIConnectionError as error:
            raise CallError("no connection", again=True) from error
        except openai.APIStatusError as error:
            raise self._status_error(error, refused) from error

    def _status_error(self, error: Any, refused: str) -> CallError | ModelError:
        status, code = int(error.status_code), str(error.code or "")
        if status in _POINTLESS or code == "insufficient_quota":
            return RefusedError(
                f"The server {self._server.url} refuses {refused} ({status}): {self._detail(error).rstrip('.')}. "
                f"Check the address, the model's name and the key in ${self._server.key_variable}.",
                status,
            )
        again = status in _AGAIN or status >= 500
        # Too many requests, and overloaded: all threads wait, not only this one.
        slow_down = status in {429, 503}
        after = _retry_after(error.response.headers)
        return CallError(str(status), again=again, after=after, slow_down=slow_down, detail=self._detail(error))

    def _detail(self, error: Any) -> str:
        """Message of an error, without the password and the key, unless that is a placeholder."""
        said = error.body.get("message") if isinstance(error.body, Mapping) else None
        key = os.environ.get(self._server.key_variable, "")
        secrets = (key if len(key) >= _SHORTEST_KEY else "", *(self._server.credentials or ())[1:])
        return server_text(str(said or error.message), hide=[secret for secret in secrets if secret])


_LONGEST_DETAIL = 200

_SHORTEST_KEY = 8
"""Shorter keys are placeholders for local servers, such as "x" or "none", and occur in ordinary words."""


def server_text(text: str, *, hide: Sequence[str] = ()) -> str:
    """One printable line of what a server said, truncated.

    Args:
        hide: Texts that must not be shown.
    """
    for secret in hide:
        text = text.replace(secret, "***")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[:_LONGEST_DETAIL]}…"


def _key(server: ChatServer) -> str:
    key = os.environ.get(server.key_variable, "")
    if not key and server.url == OPENAI:
        raise ModelError(
            f"There is no key for {server.url}: set the environment variable {server.key_variable}, or name another "
            "server by its URL."
        )
    return key or "none"


def _authorization(server: ChatServer) -> dict[str, str] | None:
    """Authorization header for a server with a password; None means the usual header with the key."""
    if server.credentials is None:
        return None
    content = ":".join(server.credentials).encode()
    return {"Authorization": f"Basic {base64.b64encode(content).decode()}"}


def _completions(client: Any, request: ModelRequest) -> Any:
    return client.chat.completions if request.endpoint == "chat" else client.completions


def decode_completion(content: bytes, endpoint: Literal["chat", "text"] = "chat") -> Completion:
    """Decode a completion.

    A refusal, a filtered text or a call of a tool is a complete reply without text: the server would give it again, and
    charge for it.

    Raises:
        CallError: if the bytes are not a complete completion with one text or one of these.
    """
    try:
        completion = _COMPLETIONS.decode(content)
    except msgspec.ValidationError as error:
        raise CallError("no chat completion", again=True) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CallError("cut or invalid JSON", again=True) from error
    if len(completion.choices) != 1:
        raise CallError("not one choice", again=True)
    choice, usage = completion.choices[0], completion.usage or _Usage()
    if endpoint == "chat" and choice.message is None:
        raise CallError("no chat completion", again=True)
    text = choice.message.content if endpoint == "chat" and choice.message else choice.text
    marked = (choice.message.reasoning_content or choice.message.reasoning or "") if choice.message else ""
    missing = "" if text else _why_no_text(choice)
    if text is None and not marked and not missing and choice.finish_reason != "length":
        raise CallError("no text", again=True)
    thoughts, text = without_thoughts(text or "")
    reply = ChatReply(
        text=text,
        finished=choice.finish_reason in {None, "stop"},
        prompt_tokens=usage.prompt_tokens,
        new_tokens=usage.completion_tokens,
        thoughts=marked.strip() or thoughts,
        missing=missing,
    )
    return Completion(completion.id, str(completion.created), reply)


def _why_no_text(choice: _Choice) -> str:
    """Reason why a complete reply has no text; "" if there is none."""
    if choice.finish_reason == "content_filter":
        return "filtered"
    if choice.message and choice.message.refusal:
        return "refused"
    return "no text" if choice.message and choice.message.tool_calls else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of the header Retry-After, which contains seconds or a date (RFC 9110, section 10.2.3)."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), _LONGEST_PAUSE)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a time zone is UTC.
    seconds = (when.replace(tzinfo=when.tzinfo or datetime.UTC) - datetime.datetime.now(datetime.UTC)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_PAUSE)


_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
"""Seconds before the second attempt, and at most before any: limits of servers are per minute."""


class StoppedError(Exception):
    """The work was stopped while a thread was waiting for its turn."""


class Pace:
    """Turns for calls.

    Args:
        most: Maximum number of concurrent calls.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = most
        self._under_way = 0
        self._succeeded = 0
        self._not_before = 0.0
        self._stopped = False
        self._changed = Condition()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until a call may start, and occupy its slot until the context ends.

        Raises:
            StoppedError: if the work is stopped in the meantime.
        """
        with self._changed:
            while True:
                self._go_on()
                left = self._not_before - time.monotonic()
                if left <= 0 and self._under_way < self._allowed:
                    break
                self._changed.wait(left if left > 0 else None)
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def succeeded(self) -> None:
        """Record a reply; after as many replies as concurrent calls are allowed, the limit rises by one."""
        with self._changed:
            self._succeeded += 1
            if self._succeeded >= self._allowed:
                self._succeeded = 0
                self._allowed = min(self._most, self._allowed + 1)
                self._changed.notify_all()

    def slow_down(self, seconds: float) -> None:
        """Start no call for some seconds, and halve the number of concurrent calls."""
        with self._changed:
            until = time.monotonic() + seconds
            if until > self._not_before:
                # Calls that were rejected together count once.
                if self._not_before <= time.monotonic():
                    self._allowed = max(1, self._allowed // 2)
                self._not_before = until
            self._succeeded = 0

    def wait(self, seconds: float) -> None:
        """Wait without occupying a slot.

        Raises:
            StoppedError: if the work is stopped in the meantime.
        """
        until = time.monotonic() + seconds
        with self._changed:
            while (left := until - time.monotonic()) > 0:
                self._go_on()
                self._changed.wait(left)
            self._go_on()

    def stop(self) -> None:
        """Start no further calls; running ones finish."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _go_on(self) -> None:
        if self._stopped:
            raise StoppedError


def backoff(attempt: int, chance: random.Random) -> float:
    """Seconds before the next attempt: doubled each time, then randomly reduced by up to half ("equal jitter").

    Args:
        attempt: Number of attempts made, from 1.
        chance: Random source, which spreads threads that failed together.
    """
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (attempt - 1))
    return longest * (0.5 + chance.random() / 2)
