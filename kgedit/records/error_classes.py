"""Names of errors in free answers, shared by rules and judges."""

from __future__ import annotations

from typing import Literal

ErrorClass = Literal["empty", "repetition", "old answer", "more than the answer", "irrelevant", "incorrect"]
"""Errors of a free answer; the rules are those of kgedit.metrics.error_classes. "more than the answer" is never used by
a judge that calls an answer wrong."""

ERROR_CLASSES: tuple[ErrorClass, ...] = (
    "empty",
    "repetition",
    "old answer",
    "more than the answer",
    "irrelevant",
    "incorrect",
)
