"""Polite HTTP requests: one at a time, with a User-Agent, pauses, retries and limits.

All downloads except jars (jgo) and models (huggingface_hub) use `opened`. The rules are those of
https://www.mediawiki.org/wiki/API:Etiquette and of the User-Agent policy of the Wikimedia Foundation.

A function that makes one request (`opened`, `get`, or the caller's) raises TemporaryError for a failure that may pass,
and `persistently` calls it again. Retries are not left to an HTTP library, because a response with status 200 is a
temporary failure too if it is truncated JSON or another byte range than requested.
"""

from __future__ import annotations

import datetime
import email.utils
import errno
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from kgedit import __version__
from kgedit.errors import SourceError
from kgedit.untrusted import is_web_address

Answer = TypeVar("Answer")

TEMPORARY = (429, 500, 502, 503, 504)
"""Status codes after which the same request may succeed."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """Settings of the requests to a server.

    Attributes:
        contact: Mail address or page of the user, sent in the User-Agent.
        pause: Seconds between two requests. Before the second attempt the wait is twice as long, and it doubles with
            each further one.
        attempts: Number of attempts before a request counts as failed.
        longest_wait: Maximum wait in seconds, regardless of what a server requests.
        time_limit: Timeout in seconds.
        sleep: Waits for the given number of seconds.
    """

    contact: str = ""
    pause: float = 1.0
    attempts: int = 6
    longest_wait: float = 300.0
    time_limit: float = 90.0
    sleep: Callable[[float], None] = time.sleep

    @property
    def user_agent(self) -> str:
        """The User-Agent."""
        return f"kgedit/{__version__} ({self.contact or 'no contact given'}) Python-urllib"


def check_address(address: str, *, option: str) -> None:
    """Check the address of a server before the first request.

    Args:
        address: Address as given.
        option: Name of the option, for the message.

    Raises:
        SourceError: if it is not an address of http or https.
    """
    if not is_web_address(address):
        raise SourceError(f"{option} {address!r} is not a web address. It begins with https:// or http://.")


class TemporaryError(Exception):
    """A failure after which the request is retried."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def persistently(ask: Callable[[], Answer], *, of: str, manners: Manners) -> Answer:
    """Return the result of a request, which is repeated after temporary failures.

    Args:
        ask: Makes the request once; raises TemporaryError if another attempt may succeed.
        of: What is requested, as the subject of the error's sentence.

    Raises:
        SourceError: naming `of` and the last failure, if all attempts fail.
    """
    attempt = 1
    while True:
        try:
            return ask()
        except TemporaryError as error:
            if attempt >= manners.attempts:
                raise SourceError(
                    f"{of} failed {attempt} times, most recently with: {error}. Try again later: the same command "
                    "resumes."
                ) from error
            # A server's own wait counts even if it is shorter: it knows when it will have room.
            backoff = manners.pause * 2**attempt
            requested = error.retry_after
            manners.sleep(min(backoff if requested is None else requested, manners.longest_wait))
            attempt += 1


def get(address: str, manners: Manners) -> bytes:
    """Return the body at an address, requested once.

    Raises:
        TemporaryError: if the server is busy or the connection breaks.
        urllib.error.HTTPError: for any other status that is not a success.
    """
    with opened(address, manners) as answer:
        body: bytes = answer.read()
    return body


@contextmanager
def opened(
    address: str, manners: Manners, *, method: str = "GET", headers: Mapping[str, str] | None = None
) -> Iterator[http.client.HTTPResponse]:
    """Request an address once; its response can be read until the context ends.

    Raises:
        TemporaryError: if the server is busy, or the connection breaks before the context ends.
        urllib.error.HTTPError: for any other status that is not a success.
    """
    sent = {"User-Agent": manners.user_agent} | dict(headers or {})
    request = urllib.request.Request(address, method=method, headers=sent)
    with temporary_errors(), urllib.request.urlopen(request, timeout=manners.time_limit) as answer:
        yield answer


@contextmanager
def temporary_errors() -> Iterator[None]:
    """Convert network failures and responses of busy servers into TemporaryError; other errors pass."""
    try:
        yield
    except urllib.error.HTTPError as error:  # an OSError too, so it comes first
        if error.code not in TEMPORARY:
            raise
        header = error.headers.get("Retry-After") if error.headers else None
        raise TemporaryError(f"HTTP {error.code} {error.reason}", _seconds_until(header)) from error
    except (OSError, http.client.HTTPException) as error:
        # Within the context a caller may also write to a disk, and no request empties a full one.
        if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
            raise
        raise TemporaryError(str(error) or type(error).__name__) from error


def _seconds_until(retry_after: str | None) -> float | None:
    """Seconds that a server requests by its Retry-After header: a number, or a date; None if it is neither."""
    if retry_after is None:
        return None
    if retry_after.strip().isdigit():
        return float(retry_after)
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.datetime.now(moment.tzinfo)).total_seconds())
