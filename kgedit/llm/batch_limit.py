"""Maximum batch size of a device, found by running out of memory and kept for the rest of the process.

After out of memory in a long run, the batch size is halved; only an item that does not fit alone is an error. Smaller
batches change results in the last bits, so a warning is logged.
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
    """Largest batch size known to fit.

    Attributes:
        what: Description of the unit: "tokens of questions".
        most: The limit; None as long as everything has fitted.
    """

    what: str
    most: int | None = None

    def run(self, at_once: int, work: Callable[[int], Result], *, least: int = 1) -> Result:
        """Call `work` with a batch size, and again with a smaller one if memory runs out.

        Args:
            at_once: Initial batch size, unless a smaller limit is known.
            work: Called again from the beginning after running out of memory.
            least: Smallest possible batch size.

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
            # Outside of `except`, because the error's traceback references the tensors of the attempt.
            size = self.most = max(least, size // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            warnings.warn(
                f"The GPU's memory was too small: from now on at most {size} {self.what} at once", stacklevel=2
            )
