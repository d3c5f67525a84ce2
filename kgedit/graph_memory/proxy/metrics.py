"""Counters of a running proxy in Prometheus's text format.

A few numbers in one process do not justify a library. Counters contain nothing of a request's content.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Count:
    """Counter for each set of labels.

    Args:
        name: Name of the metric, without the prefix.
        meaning: Help text of one line.
    """

    def __init__(self, name: str, meaning: str) -> None:
        self.name, self.meaning = name, meaning
        self._counts: Counter[tuple[tuple[str, str], ...]] = Counter()
        self._lock = threading.Lock()

    def add(self, number: float = 1, /, **labels: str) -> None:
        """Increase the counter of a set of labels."""
        with self._lock:
            self._counts[tuple(sorted(labels.items()))] += number  # type: ignore[assignment]

    def total(self, **labels: str) -> float:
        """Sum of all counters that have these labels."""
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
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in key)
            yield f"kgedit_{self.name}{f'{{{labels}}}' if labels else ''} {number:g}"


class Durations:
    """Durations as a sum and a count.

    Args:
        name: Name of the metric, without the prefix and "_sum".
        meaning: Help text of one line.
    """

    def __init__(self, name: str, meaning: str) -> None:
        self.name, self.meaning = name, meaning
        self._sum, self._count = 0.0, 0
        self._lock = threading.Lock()

    def add(self, seconds: float, times: int = 1) -> None:
        """Add the total duration of `times` events."""
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
    """All metrics of a proxy."""

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
        """All metrics as text.

        Args:
            gauges: Help text and current value of further metrics, by name.
        """
        lines = [line for metric in vars(self).values() for line in metric.lines()]
        for name, (meaning, value) in gauges.items():
            lines += [f"# HELP kgedit_{name} {meaning}", f"# TYPE kgedit_{name} gauge", f"kgedit_{name} {value:.15g}"]
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
