"""Turns failures of Spark tasks into kgedit's errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgedit import errors
from kgedit.errors import KgeditError, SourceError, StoreError

_OF_KGEDIT = re.compile(r"kgedit\.errors\.(\w+): (.+)")
_READING = re.compile(r"(?:EOFException|IOException|ZipException)[^\n]*")
_CAUSE = re.compile(r"(?:Caused by: |Exception: |Error: )([^\n]+)")


@contextmanager
def failures_explained(source: Path) -> Iterator[None]:
    """Raise kgedit's errors for those of Spark.

    Args:
        source: The dump, for the message.

    Raises:
        SourceError: if a task cannot read the dump.
        StoreError: if another task fails.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise _explained(str(error), source) from error


def _explained(text: str, source: Path) -> KgeditError:
    known = _OF_KGEDIT.findall(text)
    if known:
        name, message = known[-1]
        kind = getattr(errors, name, StoreError)
        return kind(message) if issubclass(kind, KgeditError) else StoreError(message)
    reading = _READING.search(text)
    if reading:
        return SourceError(
            f"{source} is truncated or damaged, or an executor cannot read it ({reading.group()}). Compare its "
            "size and checksum with the publisher's, and put it in a folder that all executors see under this path."
        )
    causes = _CAUSE.findall(text) or [text.strip().split("\n", 1)[0]]
    return StoreError(
        f"A Spark task failed: {causes[-1]}. The store is unchanged. See Spark's log, then give the command again."
    )
