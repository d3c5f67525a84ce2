"""Tables of docs/measurements/2026-11-25-graph-memory-recall.md from the measurements of benchmarks/memory.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MOST_ELSEWHERE = 100_000
"""Below this number of facts, the process uses more memory for other things than for the facts."""

_LEAST_QUESTIONS = 20


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """Recall, costs, questions that should return nothing, and unusual questions."""
    return "\n\n".join(table(results) for table in (_recall, _costs, _time, _silence, _special))


def _recall(results: Sequence[dict[str, Any]]) -> str:
    kinds = [name for name, found in results[0]["graph"].items() if isinstance(found, dict) and "ms" in found]
    lines = []
    for kind in kinds:
        for place, result in enumerate(results):
            found, rag = result["graph"][kind], result.get("rag", {}).get(kind)
            near = " / ".join(f"{rag[f'@{k}']:g}" for k in (2, 4, 8)) if rag else "–"
            graph = " / ".join(f"{found[f'@{k}']:g}" for k in (2, 4, 8))
            named = "" if place else kind
            lines.append((named, f"{result['facts']:,}", near, graph, f"{found['rows']:g}", f"{found['kept']:g}"))
    return _table(("questions", "facts", "rag @2 / 4 / 8", "graph_rag @2 / 4 / 8", "rows", "kept"), lines)


def _costs(results: Sequence[dict[str, Any]]) -> str:
    lines = []
    for result in results:
        graph = result["graph"]
        times = [found["ms"] for found in graph.values() if isinstance(found, dict) and "ms" in found]
        embedding = [found["ms of embedding"] for found in graph.values() if isinstance(found, dict) and "ms" in found]
        rag = [found["ms"] for found in result.get("rag", {}).values() if isinstance(found, dict)]
        grown = graph["grow"]
        lines.append(
            (
                f"{result['facts']:,}",
                f"{min(times):.1f}–{max(times):.1f}",
                f"{min(rag):.1f}–{max(rag):.1f}" if rag else "–",
                f"{min(embedding):.0f}–{max(embedding):.0f}",
                f"{graph['bytes_per_fact']} ({graph['bytes_per_fact_misspelt']})",
                str(graph["resident_bytes_per_fact"]) if result["facts"] >= _MOST_ELSEWHERE else "–",
                f"{graph['learn_seconds']:.1f}",
                f"{result['rag']['learn_seconds']:.0f}" if "rag" in result else "–",
                f"{grown['seconds']:.2f}",
                f"{grown['rebuilding']:.1f}",
            )
        )
    head = (
        *("facts", "ms a question", "ms, rag", "ms of its embedding", "bytes a fact", "bytes of the process"),
        *("s to learn", "s to learn, rag", "s to add 10,000", "s to rebuild"),
    )
    return _table(head, lines)


def _time(results: Sequence[dict[str, Any]]) -> str:
    kinds = {
        "now": "new value, asked without a date",
        "in June 2022": "old value, asked for the time before",
        "superseded told": "old value, asked without a date (should be 0)",
    }
    lines = [(name, *(f"{result['graph']['grow'][kind]:g}" for result in results)) for kind, name in kinds.items()]
    return _table(("of superseded facts, found", *(f"{result['facts']:,}" for result in results)), lines)


def _silence(results: Sequence[dict[str, Any]]) -> str:
    kinds = [
        kind
        for kind, found in results[-1]["graph"]["should get nothing"].items()
        if found["questions"] >= _LEAST_QUESTIONS
    ]
    lines = []
    for kind in kinds:
        found = [result["graph"]["should get nothing"][kind] for result in results]
        lines.append((kind, *(f"{each['passes']:g} of {each['questions']}" for each in found)))
    return _table(("should get nothing: % that pass", *(f"{result['facts']:,}" for result in results)), lines)


def _special(results: Sequence[dict[str, Any]]) -> str:
    kinds = list(results[0]["graph"]["special"])
    lines = []
    for kind in kinds:
        found = [result["graph"]["special"][kind] for result in results]
        lines.append((kind, *(f"{each['@8']:g} ({each['kept']:g}; {each['rows']:g})" for each in found)))
    return _table(("found (kept; rows)", *(f"{result['facts']:,}" for result in results)), lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, (":--", *["--:"] * (len(head) - 1)), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
