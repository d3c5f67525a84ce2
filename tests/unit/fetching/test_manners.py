"""Failures after which a download waits, how long, and failures that end it at once."""

from __future__ import annotations

import datetime
import email.message
import email.utils
import errno
import http.client
import re
import urllib.error

import pytest

from kgedit.errors import SourceError
from kgedit.fetching.manners import TEMPORARY, Manners, TemporaryError, persistently, temporary_errors


def _status(code: int, retry_after: str | None = None) -> urllib.error.HTTPError:
    headers = email.message.Message()
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return urllib.error.HTTPError("http://127.0.0.1", code, "reason", headers, None)


def _waits(*failures: Exception, attempts: int = 6, longest: float = 300.0) -> list[float]:
    waited: list[float] = []
    manners = Manners(pause=1, attempts=attempts, longest_wait=longest, sleep=waited.append)
    coming = iter(failures)

    def ask() -> str:
        with temporary_errors():
            for failure in coming:
                raise failure
        return "answer"

    assert persistently(ask, of="The request", manners=manners) == "answer"
    return waited


@pytest.mark.parametrize("failure", [*map(_status, TEMPORARY), TimeoutError(), http.client.IncompleteRead(b"")])
def test_a_failure_that_may_pass_is_waited_for_twice_as_long_each_time(failure: Exception) -> None:
    assert _waits(failure, failure, failure) == [2, 4, 8]


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), (" 0 ", 0), ("soon", 2), ("1.5", 2), ("9999", 300)])
def test_a_server_that_names_a_wait_gets_it_up_to_the_longest(header: str, seconds: float) -> None:
    assert _waits(_status(429, header)) == [seconds]


@pytest.mark.parametrize(("ahead", "seconds"), [(60, 60), (-60, 0)])
def test_a_wait_can_be_a_date(ahead: int, seconds: float) -> None:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead)
    [waited] = _waits(_status(503, email.utils.format_datetime(moment, usegmt=True)))
    assert waited == pytest.approx(seconds, abs=30)


@pytest.mark.parametrize("failure", [_status(404), OSError(errno.ENOSPC, "full"), OSError(errno.EROFS, "read-only")])
def test_what_no_repetition_cures_ends_it_unchanged(failure: OSError) -> None:
    with pytest.raises(OSError, match=re.escape(str(failure))) as raised:
        _waits(failure)
    assert raised.value is failure


def test_the_last_failure_is_named_after_all_attempts() -> None:
    with pytest.raises(SourceError, match=r"The request failed 2 times, most recently with: HTTP 500 reason"):
        _waits(_status(503), _status(500), attempts=2)
    with pytest.raises(SourceError, match="failed 1 times, most recently with: TimeoutError"):
        _waits(TimeoutError(), attempts=1)


def test_a_failure_of_the_content_counts_too() -> None:
    assert _waits(TemporaryError("truncated"), longest=1) == [1]
