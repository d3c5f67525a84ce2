"""Reports which facts were added to a request: in headers, and on request in the response.

A response in JSON gets a field; a stream of events begins with a comment, which clients of server-sent events ignore.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2

from kgedit.graph_memory.findings import Remembered

FACTS_HEADER, STATEMENTS_HEADER, EXPLAIN_HEADER = b"x-kgedit-facts", b"x-kgedit-statements", "x-kgedit-explain"
FIELD = "kgedit_facts"

_ITEM, _PROPERTY = re.compile(r"Q\d+"), re.compile(r"P\d+")


def statement_link(fact: Remembered) -> str:
    """Address of the statements of a fact on Wikidata; SUBJECT:RELATION for other ids, in ASCII."""
    if _ITEM.fullmatch(fact.subject) and _PROPERTY.fullmatch(fact.relation):
        return f"https://www.wikidata.org/wiki/{fact.subject}#{fact.relation}"
    return re.sub(r"[^!-+\--~]", "_", f"{fact.subject}:{fact.relation}".encode("ascii", "replace").decode())


def explained(facts: Sequence[Remembered]) -> list[dict[str, Any]]:
    """Facts as JSON values, with their dates and statements."""
    return [
        {
            "question": fact.bridged,
            "values": [
                {"answer": value.label, "since": value.since or None, "until": value.until or None}
                for value in fact.values
            ],
            "statement": statement_link(fact),
        }
        for fact in facts
    ]


def fact_headers(facts: Sequence[Remembered]) -> list[tuple[bytes, bytes]]:
    """Headers with the number of facts and their statements."""
    headers = [(FACTS_HEADER, str(len(facts)).encode())]
    if facts:
        links = dict.fromkeys(statement_link(fact) for fact in facts)
        headers.append((STATEMENTS_HEADER, ", ".join(links).encode()))
    return headers


async def explained_body(upstream: httpx2.Response, facts: Sequence[Remembered]) -> bytes | None:
    """Decoded body of a JSON response with the facts as a field; None if the response is no JSON object."""
    content = await upstream.aread()
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return json.dumps({**body, FIELD: explained(facts)}).encode() if isinstance(body, dict) else None


async def explained_stream(upstream: AsyncIterator[bytes], facts: Sequence[Remembered]) -> AsyncIterator[bytes]:
    """A stream of events after a comment with the facts."""
    yield f": {FIELD} {json.dumps(explained(facts))}\n\n".encode()
    async for piece in upstream:
        yield piece
