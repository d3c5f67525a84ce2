"""Counts of a running proxy in the text form that Prometheus reads.

Few numbers in one process need no library. Nothing of a request's content is counted or named.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Count:
    """A number that only grows, for each set of labels.

    Args:
        name: Of the metric, without the prefix.
        meaning: One line.
    """

    def __init__(self, name: str, meaning: str) -> None:
        self.name, self.meaning = name, meaning
        self._counts: Counter[tuple[tuple[str, str], ...]] = Counter()
        self._lock = threading.Lock()

    def add(self, number: float = 1, /, **labels: str) -> None:
        """Add to the number of some labels."""
        with self._lock:
            self._counts[tuple(sorted(labels.items()))] += number  # type: ignore[assignment]

    def total(self, **labels: str) -> float:
        """The sum over all that have these labels."""
        wanted = set(labels.items())
        with self._lock:
            return sum(number for key, number in self._counts.items() if wanted <= set(key))

    def lines(self) -> Iterator[str]:
        """The metric as text."""
        yield f"# HELP kgedit_{self.name} {self.meaning}"
        yield f"# TYPE kgedit_{self.name} counter"
        with self._lock:
            counts = sorted(self._counts.items()) or [((), 0)]
        for key, number in counts:
            told = ",".join(f'{name}="{_escaped(value)}"' for name, value in key)
            yield f"kgedit_{self.name}{f'{{{told}}}' if told else ''} {number:g}"


class Durations:
    """Seconds of something, as a sum and a count.

    Args:
        name: Of the metric, without the prefix and "_sum".
        meaning: One line.
    """

    def __init__(self, name: str, meaning: str) -> None:
        self.name, self.meaning = name, meaning
        self._sum, self._count = 0.0, 0
        self._lock = threading.Lock()

    def add(self, seconds: float, times: int = 1) -> None:
        """Add seconds that so many took together."""
        with self._lock:
            self._sum, self._count = self._sum + seconds, self._count + times

    def lines(self) -> Iterator[str]:
        """The metric as text."""
        yield f"# HELP kgedit_{self.name} {self.meaning}"
        yield f"# TYPE kgedit_{self.name} summary"
        with self._lock:
            yield f"kgedit_{self.name}_sum {self._sum:g}"
            yield f"kgedit_{self.name}_count {self._count}"


class Metrics:
    """What a proxy counts."""

    def __init__(self) -> None:
        self.requests = Count(
            "requests_total", "Answered requests by path and status; 0: the client left, 599: broken."
        )
        self.with_facts = Count("requests_with_facts_total", "Requests that facts were put into.")
        self.facts = Count("facts_total", "Facts put into requests.")
        self.retrieval_errors = Count("retrieval_errors_total", "Requests passed on without facts: retrieval failed.")
        self.upstream_errors = Count("upstream_errors_total", "Requests that the upstream did not answer, by kind.")
        self.reloads = Count("reloads_total", "Times that a new memory was loaded.")
        self.reload_failures = Count("reload_failures_total", "Times that a memory could not be loaded.")
        self.retrieval = Durations("retrieval_seconds", "Seconds in which facts were sought, a batch's counted once.")

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of it.

        Args:
            gauges: Meaning and value of what is as it is now, by name.
        """
        lines = [line for metric in vars(self).values() for line in metric.lines()]
        for name, (meaning, value) in gauges.items():
            lines += [f"# HELP kgedit_{name} {meaning}", f"# TYPE kgedit_{name} gauge", f"kgedit_{name} {value:.15g}"]
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
