"""What can be wrong with a free answer, by name: rules and judges use the same names."""

from __future__ import annotations

from typing import Literal

ErrorClass = Literal["empty", "repetition", "old answer", "more than the answer", "irrelevant", "incorrect"]
"""What is wrong with a free answer; the rules are those of kgedit.metrics.error_classes. A judge that calls an answer
wrong never says that it is more than the answer."""

ERROR_CLASSES: tuple[ErrorClass, ...] = (
    "empty",
    "repetition",
    "old answer",
    "more than the answer",
    "irrelevant",
    "incorrect",
)
