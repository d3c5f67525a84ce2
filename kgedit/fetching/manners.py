"""Polite HTTP requests: one at a time, with a User-Agent, pauses, retries and limits.

All downloads except jars (jgo) and models (huggingface_hub) use `opened`. Required by
https://www.mediawiki.org/wiki/API:Etiquette and the User-Agent policy of the Wikimedia Foundation.
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

Answer = TypeVar("Answer")

TEMPORARY = (429, 500, 502, 503, 504)
"""Status codes after which the same request may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """Settings of the requests to a server.

    Attributes:
        contact: Mail address or page of the user, sent in the User-Agent.
        pause: Seconds between two requests, and the first wait after a failure; it doubles with each further failure.
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


class TemporaryError(Exception):
    """A failure after which the request is retried."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def persistently(ask: Callable[[], Answer], *, of: str, manners: Manners) -> Answer:
    """Return the result of a request, which is retried after temporary failures.

    Raises:
        SourceError: naming `of` and the last failure, if all attempts fail.
    """
    for attempt in range(1, manners.attempts + 1):
        try:
            return ask()
        except TemporaryError as error:
            if attempt == manners.attempts:
                raise SourceError(
                    f"{of} failed {attempt} times, most recently with: {error}. Try again later: the same command "
                    "resumes."
                ) from error
            wait = error.retry_after if error.retry_after is not None else manners.pause * 2**attempt
            manners.sleep(min(wait, manners.longest_wait))
    raise SourceError(f"{of} was not tried. Give at least one attempt.")


def get(address: str, manners: Manners, *, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the body at an address, requested once.

    Raises:
        TemporaryError: if the server is busy or the connection breaks.
        urllib.error.HTTPError: for any other status than 200.
    """
    with opened(address, manners, headers=headers) as answer:
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
    """Convert network failures and responses of busy servers into TemporaryError."""
    try:
        yield
    except urllib.error.HTTPError as error:
        if error.code not in TEMPORARY:
            raise
        raise TemporaryError(f"HTTP {error.code} {error.reason}", _retry_after(error)) from error
    except (OSError, http.client.HTTPException) as error:
        if _is_of_the_disk(error):
            raise
        raise TemporaryError(str(error) or type(error).__name__) from error


def _is_of_the_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    """Seconds to wait as requested by the server, from a number or a date."""
    header = error.headers.get("Retry-After") if error.headers else None
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.datetime.now(moment.tzinfo)).total_seconds())
