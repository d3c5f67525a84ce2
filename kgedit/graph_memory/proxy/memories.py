"""Memory behind the proxy: answers concurrent requests, reloads a changed file without a pause, and counts both.

Waiting questions are answered in one batch in one thread, because an embedder takes several texts in little more than
the time of one. A second thread loads a new file while the old memory answers; an unreadable file changes nothing.
Counters are printed in Prometheus's text format, without a library for a few numbers in one process. They contain
nothing of a request's content.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgedit.errors import KgeditError
from kgedit.graph_memory.gate import Gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.matching import RelationMatcher
from kgedit.graph_memory.memory_file import read_memory_file
from kgedit.graph_memory.relations import CatalogueWordings
from kgedit.graph_memory.retrieval import Finding, Search
from kgedit.llm.embeddings import Embedder, Vectors

LOG = logging.getLogger("kgedit.graph_memory.proxy")
_MOST_AT_ONCE = 64
_MOST_VECTORS = 10_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded memory file.

    Attributes:
        memory: The memory.
        sha256: SHA-256 of the file.
        manifest: Manifest of the file.
        at: Time of loading in seconds since 1970.
    """

    memory: GraphMemory
    sha256: str
    manifest: dict[str, Any]
    at: float

    @property
    def as_of(self) -> str:
        """ISO date as of which the newest source is current; "" if no source has one."""
        return max(map(_newest_day, self.manifest.get("sources", ())), default="")


_TIMESTEP = re.compile(r"\d{8}_(\d{4})(\d\d)(\d\d)")


def _newest_day(source: Mapping[str, Any]) -> str:
    """ISO date as of which a source is current, for a timestep that of its newer snapshot; "" if it has none."""
    named = _TIMESTEP.fullmatch(str(source.get("name", "")))
    return "-".join(named.groups()) if named else str(source.get("as_of") or "")


class CachedEmbedder:
    """Embedder with a cache of recent vectors. A reloaded memory embeds the same wordings as the one before.

    Args:
        embed: Computes vectors that are not cached.
        most: Maximum number of cached texts.
    """

    def __init__(self, embed: Embedder, most: int = _MOST_VECTORS) -> None:
        self._embed, self._most = embed, most
        self._kept: OrderedDict[str, Vectors] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(texts) if text not in self._kept]
        if missing:
            self._kept.update(zip(missing, self._embed(missing), strict=True))
        for text in texts:
            self._kept.move_to_end(text)
        found: Vectors = np.stack([self._kept[text] for text in texts])
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found


class ServedMemory:
    """A memory file that is searched and watched for changes.

    Args:
        path: Path of the file.
        embed: Computes vectors of texts.
        gate: Gate fitted for the embedder.
        search: Search options.
        metrics: Counters to update.
        matcher: Relation matcher trained for the embedder, or None.
    """

    def __init__(
        self,
        path: Path,
        embed: Embedder,
        *,
        gate: Gate,
        search: Search,
        metrics: Metrics,
        matcher: RelationMatcher | None = None,
    ) -> None:
        self.path, self.search, self._matcher = path, search, matcher
        self._embed, self._gate, self._metrics = CachedEmbedder(embed), gate, metrics
        self._catalogue = CatalogueWordings(embed)
        # One thread searches and another loads: neither memory nor embedder is thread-safe. Warming up a new memory
        # uses the embedder and therefore runs in the first thread.
        self._asking = ThreadPoolExecutor(1, "kgedit-ask")
        self._loading = ThreadPoolExecutor(1, "kgedit-load")
        self._waiting: list[tuple[Sequence[str], asyncio.Future[Finding]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._stamp: tuple[int, ...] | None = None
        self.loaded = self._load()

    async def warm(self) -> None:
        """Load the embedder and compute the catalogue's vectors, so that the first request does not wait for them."""
        await asyncio.get_running_loop().run_in_executor(self._asking, self._warm, self.loaded.memory)

    async def find(self, turns: Sequence[str]) -> Finding:
        """Find the facts for the last turn of a conversation, user and assistant in turn."""
        future: asyncio.Future[Finding] = asyncio.get_running_loop().create_future()
        self._waiting.append((turns, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await future

    async def reload(self) -> bool:
        """Load the file and use it from now on. Returns False and keeps the old memory if it cannot be read."""
        loop = asyncio.get_running_loop()
        try:
            fresh = await loop.run_in_executor(self._loading, self._load)
            await loop.run_in_executor(self._asking, self._warm, fresh.memory)
        except Exception as error:  # a bad file must not stop the server
            self._metrics.reload_failures.add()
            LOG.error("The memory was not reloaded, the earlier one stays: %s", error)
            return False
        self.loaded = fresh
        self._metrics.reloads.add()
        LOG.info("Reloaded %s: %s facts, sha256 %s", self.path, f"{len(fresh.memory):,}", fresh.sha256[:12])
        return True

    async def watch(self, seconds: float) -> None:
        """Check the file every `seconds` and reload it when it has changed, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            stamp = self._stamp_of_file()
            if stamp is not None and stamp != self._stamp:
                await self.reload()

    def close(self) -> None:
        """Shut down the threads."""
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._loading.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
            memory, started = self.loaded.memory, time.perf_counter()
            questions = [turns for turns, _ in batch]
            found: Sequence[Finding | Exception]
            try:
                found = await loop.run_in_executor(self._asking, self._find_each, memory, questions)
            except Exception as error:  # passed on to those who asked
                found = [error] * len(batch)
            answered = sum(isinstance(one, Finding) for one in found)
            if answered:
                self._metrics.retrieval.add(time.perf_counter() - started, answered)
            for (_, future), one in zip(batch, found, strict=True):
                if future.done():
                    continue
                if isinstance(one, Finding):
                    future.set_result(one)
                else:
                    future.set_exception(one)

    def _find_each(self, memory: GraphMemory, questions: Sequence[Sequence[str]]) -> list[Finding | Exception]:
        """Find all at once; if that fails, one by one, so that only the questions that cause an error get one."""
        try:
            return [*memory.find(questions, self.search)]
        except Exception as error:
            if len(questions) == 1:
                return [error]
            return [one for question in questions for one in self._find_each(memory, [question])]

    def _load(self) -> Loaded:
        # Taken first: a file that is replaced while it is read is loaded again, and not missed.
        self._stamp = self._stamp_of_file()
        file = read_memory_file(self.path)
        memory = GraphMemory(self._embed, catalogue=self._catalogue, gate=self._gate, matcher=self._matcher)
        try:
            memory.load_tables(file.tables)
            memory.prepare()
        except (KeyError, ValueError) as error:
            raise KgeditError(f"{self.path} lacks a table of a memory ({error}). Build it again.") from error
        return Loaded(memory, file.sha256, dict(file.manifest), time.time())

    def _stamp_of_file(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _warm(self, memory: GraphMemory) -> None:
        self._embed(["X"])
        _ = self._catalogue.vectors, self._catalogue.postings
        memory.find(["Who is it?"], self.search)


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
