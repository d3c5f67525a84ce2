"""How much a device takes at once: found out by running out of memory, and kept for the rest of the process.

Out of memory in the middle of a long run is answered with half as much at once; only what does not fit alone is an
error. What is computed in smaller batches differs in its last bits, so the reduction is told.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")


@dataclass(slots=True)
class BatchLimit:
    """The most of something that was found to fit.

    Attributes:
        what: What is counted, in words: "tokens of questions".
        most: None as long as everything has fitted.
    """

    what: str
    most: int | None = None

    def run(self, at_once: int, work: Callable[[int], Result], *, least: int = 1) -> Result:
        """The result of `work`, which is called with how much to take at once, and again with less.

        Args:
            at_once: What to begin with, unless less is known to be the most.
            work: Called anew from its beginning after it ran out of memory.
            least: What can be divided no further.

        Raises:
            torch.OutOfMemoryError: if `least` does not fit.
        """
        size = max(least, at_once if self.most is None else min(at_once, self.most))
        while True:
            try:
                return work(size)
            except torch.OutOfMemoryError:
                if size <= least:
                    raise
            # Outside of `except`: the error's traceback holds the tensors of the attempt.
            size = self.most = max(least, size // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            warnings.warn(
                f"The GPU's memory was too small: from now on at most {size} {self.what} at once", stacklevel=2
            )
