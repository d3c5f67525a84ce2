"""How servers are asked: one request at a time, with a name, pauses and patience, and no further than told.

https://www.mediawiki.org/wiki/API:Etiquette and the User-Agent policy of the Wikimedia Foundation ask for this.
"""

from __future__ import annotations

import datetime
import email.utils
import errno
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kgedit import __version__
from kgedit.errors import SourceError

Answer = TypeVar("Answer")

TEMPORARY = (429, 500, 502, 503, 504)
"""Answers after which the same request may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How servers are asked.

    Attributes:
        contact: Mail address or page of whoever runs this; it goes into the User-Agent.
        pause: Seconds between two requests, and the first wait after a failure; each further one is twice as long.
        attempts: How often a request is made before it counts as failed.
        longest_wait: Bound in seconds of a wait, whatever a server asks for.
        time_limit: Seconds until an unanswered request counts as failed.
        sleep: Waits so many seconds.
    """

    contact: str = ""
    pause: float = 1.0
    attempts: int = 6
    longest_wait: float = 300.0
    time_limit: float = 90.0
    sleep: Callable[[float], None] = time.sleep

    @property
    def user_agent(self) -> str:
        """As whom servers see us."""
        return f"kgedit/{__version__} ({self.contact or 'no contact given'}) Python-urllib"


class TemporaryError(Exception):
    """A failure after which the request is made again."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def persistently(ask: Callable[[], Answer], *, of: str, manners: Manners) -> Answer:
    """What a request gives, made again after temporary failures.

    Raises:
        SourceError: naming `of` and the last failure, if all attempts fail.
    """
    for attempt in range(1, manners.attempts + 1):
        try:
            return ask()
        except TemporaryError as error:
            if attempt == manners.attempts:
                raise SourceError(
                    f"{of} failed {attempt} times, the last time so: {error}. Try again later: the same command "
                    "resumes."
                ) from error
            wait = error.retry_after if error.retry_after is not None else manners.pause * 2**attempt
            manners.sleep(min(wait, manners.longest_wait))
    raise SourceError(f"{of} was not tried. Give at least one attempt.")


def get(address: str, manners: Manners, *, headers: Mapping[str, str] | None = None) -> bytes:
    """The body at an address, asked for once.

    Raises:
        TemporaryError: if the server is busy, or the connection breaks.
        urllib.error.HTTPError: with any other status than 200.
    """
    request = urllib.request.Request(address, headers={"User-Agent": manners.user_agent} | dict(headers or {}))
    with temporary_errors(), urllib.request.urlopen(request, timeout=manners.time_limit) as answer:
        body: bytes = answer.read()
    return body


class temporary_errors:  # noqa: N801 - used as a context manager
    """Turns failures of the network, and answers of busy servers, into TemporaryError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, urllib.error.HTTPError):
            if error.code in TEMPORARY:
                raise TemporaryError(f"HTTP {error.code} {error.reason}", _retry_after(error)) from error
        elif isinstance(error, (OSError, http.client.HTTPException)) and not _is_of_the_disk(error):
            raise TemporaryError(str(error) or type(error).__name__) from error


def _is_of_the_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    """Seconds that the server asks to wait: a number, or a date."""
    said = error.headers.get("Retry-After") if error.headers else None
    if said is None:
        return None
    if said.strip().isdigit():
        return float(said)
    try:
        moment = email.utils.parsedate_to_datetime(said)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.datetime.now(moment.tzinfo)).total_seconds())
