"""Searches items and properties by label, alias or id; the text may be a prefix of a name or of words in it."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.explorer.explorer import Explorer, ExplorerTerm, is_entity_id
from kgedit.explorer.index_queries import words_of

_LAST = chr(0x10FFFF)
"""Sorts after every letter: texts with a prefix are those between the prefix and the prefix followed by this."""

_MOST_WORDS = 8  # each word is a join


@dataclass(frozen=True, slots=True)
class Found:
    """An entity that matches the text.

    Attributes:
        term: The entity.
        match: "id", "label" or "alias" for a whole name, "start" for the prefix of a name, else "words".
    """

    term: ExplorerTerm
    match: str


_MATCHES = ("id", "label", "alias", "start", "words")


def search(explorer: Explorer, text: str, *, limit: int = 20) -> list[Found]:
    """Search entities by name, best match first: whole names, names with the prefix, names with such words.

    Ignores case, accents and punctuation. Equal matches are ordered by number of facts in the newest snapshot.

    Args:
        explorer: The snapshots.
        text: Text to search for.
        limit: Maximum number of results.
    """
    words = explorer.table(f"SELECT unnest({words_of('$text')}) AS word", {"text": text})["word"].to_pylist()
    id_typed = text.strip().upper()
    ranks: dict[str, int] = {id_typed: 0} if is_entity_id(id_typed) else {}
    if words:
        rows = explorer.table(*_query(words[:_MOST_WORDS], limit)).to_pylist()
        ranks = {row["id"]: row["tier"] for row in rows} | ranks
    terms = explorer.terms(list(ranks))
    order = sorted(terms.values(), key=lambda term: (ranks[term.id], -term.popularity, term.id))
    return [Found(term, _MATCHES[ranks[term.id]]) for term in order[:limit]]


def _query(words: list[str], limit: int) -> tuple[str, dict[str, str | int]]:
    key = " ".join(words)
    parameters: dict[str, str | int] = {"key": key, "after_key": key + _LAST, "limit": limit}
    ranges = []
    for number, word in enumerate(dict.fromkeys(words)):
        parameters |= {f"word_{number}": word, f"after_{number}": word + _LAST}
        ranges.append(f"SELECT id, popularity FROM word WHERE word >= $word_{number} AND word < $after_{number}")
    all_of = " INTERSECT ".join(ranges)
    return (
        f"""
        WITH whole AS (
            SELECT id, min(CASE WHEN key <> $key THEN 3 WHEN is_alias THEN 2 ELSE 1 END) AS tier,
                   any_value(popularity) AS popularity
            FROM name WHERE key >= $key AND key < $after_key GROUP BY id ORDER BY tier, popularity DESC, id LIMIT $limit
        ), with_words AS (
            SELECT DISTINCT id, popularity FROM ({all_of}) ORDER BY popularity DESC, id LIMIT $limit
        )
        SELECT id, min(tier) AS tier, any_value(popularity) AS popularity
        FROM (FROM whole UNION ALL SELECT id, 4, popularity FROM with_words)
        GROUP BY id ORDER BY tier, popularity DESC, id LIMIT $limit
        """,
        parameters,
    )
