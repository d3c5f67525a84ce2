"""Changed groups of a subject and a relation that became no update, each with its reason: table ``dropped``.

It is stored with the tables of a timestep as in the other profile (kgedit.timesteps.dropped); no question is made from
it.
"""

from __future__ import annotations

import duckdb

from kgedit.timesteps.subjects import is_id
from kgedit.timesteps.wikifactdiff.scenarios import LOST, UNCHANGED


def find_dropped(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create ``dropped`` with the columns of kgedit.timesteps.dropped.DROPPED.

    Values of both snapshots have the newer one's ids; a literal has an id "V..." and its text as label. A value in both
    snapshots is listed on both sides.

    Args:
        workspace: Workspace with judged_group, told, known and, if the released code lost entities, lost.
    """
    tables = {row[0] for row in workspace.execute("SHOW TABLES").fetchall()}
    lost = "subject IN (FROM lost)" if "lost" in tables else "false"
    workspace.execute(
        f"""
        CREATE TABLE dropped AS
        WITH reason_of AS (
            SELECT subject, property, coalesce(reason, '{LOST}') AS reason FROM judged_group
            WHERE reason <> '{UNCHANGED}' OR (reason IS NULL AND {lost})
        ), said AS (
            SELECT subject, property, term, any_value(label) AS label,
                   bool_or(side <> 'new') AS was, bool_or(side <> 'old') AS became
            FROM told SEMI JOIN reason_of USING (subject, property) GROUP BY subject, property, term
        ), listed AS (
            SELECT subject, property,
                   coalesce(list(term ORDER BY term) FILTER (WHERE was), []) AS old_objects,
                   coalesce(list(label ORDER BY term) FILTER (WHERE was), []) AS old_labels,
                   coalesce(list(term ORDER BY term) FILTER (WHERE became), []) AS new_objects,
                   coalesce(list(label ORDER BY term) FILTER (WHERE became), []) AS new_labels
            FROM said GROUP BY subject, property
        )
        SELECT subject, s.label AS subject_label, property,
               CASE WHEN p.label IS NULL OR {is_id("p.label")} THEN NULL ELSE p.label END AS property_label,
               old_objects, old_labels, new_objects, new_labels, reason
        FROM reason_of JOIN listed USING (subject, property)
        LEFT JOIN known s ON s.id = subject LEFT JOIN known p ON p.id = property
        """  # noqa: S608 - our own names
    )
