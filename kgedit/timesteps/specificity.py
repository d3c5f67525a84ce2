"""Specificity of cases: page views of the subject and the object, and their counts in a corpus.

Source: WikiBigEdit, section 3.3 and appendix B.4 ("specificity"); lower numbers mean higher specificity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.records.cases import SPECIFICITY
from kgedit.timesteps.corpus_counts import corpus_counts, corpus_version
from kgedit.timesteps.page_views import read_viewed


def measure_specificity(
    connection: duckdb.DuckDBPyConnection, cases: pa.Table, *, counts: Path | None
) -> tuple[pa.Table, dict[str, Any]]:
    """Compute the columns of SPECIFICITY for cases.

    Args:
        connection: Connection with ``known`` (id, wiki_title) and, if page views were given, ``viewed`` and
            ``viewed_month`` (kgedit.timesteps.page_views).
        cases: Cases with case_id, subject, object and their labels.
        counts: Counts of a corpus, or its texts (kgedit.timesteps.corpus_counts); None leaves counts null.

    Returns:
        case_id and the four columns, in the order of cases, null if unknown; and for the manifest the number of cases
        with each, empty if nothing was measured.
    """
    sides = cases.select(["case_id", "subject", "subject_label", "object", "object_label"])
    corpus = _read_counts(counts, sides)
    counted = pa.table(
        {"name": pa.array(list(corpus), pa.string()), "count": pa.array(list(corpus.values()), pa.int64())}
    )
    connection.register("sides", sides)
    connection.register("counted", counted)
    try:
        found: pa.Table = connection.sql(_SPECIFICITY.format(views=_views(connection))).to_arrow_table()
    finally:
        connection.unregister("sides")
        connection.unregister("counted")
    return found, {
        name: len(found) - found[name].null_count for name in SPECIFICITY if found[name].null_count < len(found)
    }


def read_case_views(
    connection: duckdb.DuckDBPyConnection, cases: pa.Table, files: Sequence[Path], *, wiki: str, date: int
) -> dict[str, object]:
    """Create ``viewed`` and ``viewed_month`` for the subjects and objects of cases; see `read_viewed` for arguments."""
    connection.register("sides", cases.select(["subject", "object"]))
    try:
        connection.execute(
            "CREATE TABLE case_item AS SELECT id, wiki_title FROM known "
            "WHERE id IN (SELECT subject FROM sides UNION SELECT object FROM sides)"
        )
    finally:
        connection.unregister("sides")
    return read_viewed(connection, files, items="case_item", wiki=wiki, date=date)


def specificity_provenance(pageviews: Mapping[str, str] | None, counts: Path | None) -> dict[str, Any]:
    """Settings for a manifest: files of page views and of counts with their hashes, each only if given."""
    found: dict[str, Any] = {} if not pageviews else {"pageviews": dict(pageviews)}
    return found | ({"counts": corpus_version(counts)} if counts else {})


def _read_counts(counts: Path | None, sides: pa.Table) -> Mapping[str, int]:
    if counts is None:
        return {}
    labels = {label for side in ("subject", "object") for label in sides[f"{side}_label"].to_pylist() if label}
    return corpus_counts(counts, sorted(labels))


def _views(connection: duckdb.DuckDBPyConnection) -> str:
    """SQL of id and views in all months; 0 for an article without views. No rows without files."""
    there = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'viewed'").fetchall()[0][0]
    if not there:
        return "SELECT NULL::VARCHAR AS id, NULL::BIGINT AS views WHERE false"
    return """
        SELECT k.id, coalesce(sum(v.views), 0)::BIGINT AS views FROM known k LEFT JOIN viewed v USING (id)
        WHERE k.wiki_title IS NOT NULL AND EXISTS (FROM viewed_month)
        AND k.id IN (SELECT subject FROM sides UNION SELECT object FROM sides) GROUP BY k.id
    """


_SPECIFICITY = """
    WITH views AS ({views})
    SELECT case_id, s.views AS subject_views, o.views AS object_views,
           coalesce(si."count", sl."count") AS subject_count, coalesce(oi."count", ol."count") AS object_count
    FROM (SELECT *, row_number() OVER () AS place FROM sides) c
    LEFT JOIN views s ON s.id = c.subject LEFT JOIN views o ON o.id = c.object
    LEFT JOIN counted si ON si.name = c.subject LEFT JOIN counted sl ON sl.name = c.subject_label
    LEFT JOIN counted oi ON oi.name = c.object LEFT JOIN counted ol ON ol.name = c.object_label
    ORDER BY place
"""
