"""Evidence that an unchanged fact is true on the day of the newer snapshot, and not merely out of date.

Many facts of Wikidata are out of date because no one entered their end. Among equally suitable facts for a locality
probe, those with evidence are preferred. References are not stored, so the evidence is dates and revisions.
"""

from __future__ import annotations

DATED = "dated"
"""The statement has a start or a point in time, which someone must have looked up."""

EDITED = "edited"
"""The item was edited between the snapshots, and the fact was kept."""

EVIDENCE_RANK = f"CASE evidence WHEN '{DATED}' THEN 2 WHEN '{EDITED}' THEN 1 ELSE 0 END"
"""SQL of a rank; higher is better."""

ALIKE = 1
"""Number of decimals to which similarities are rounded; facts of equal rounded similarity are equally suitable."""


def find_evidence(facts: str) -> str:
    """SQL of the evidence of facts, with columns subject, property, object and evidence (null without evidence).

    Args:
        facts: A table or view with columns subject, property and object, on a connection with the views new_facts,
            old_entities and new_entities.
    """
    return f"""
        SELECT f.subject, f.property, f.object,
               CASE WHEN f.dated THEN '{DATED}' WHEN o.lastrevid <> n.lastrevid THEN '{EDITED}' END AS evidence
        FROM (SELECT subject, property, object, bool_or(start_first IS NOT NULL OR point_first IS NOT NULL) AS dated
              FROM new_facts SEMI JOIN {facts} USING (subject, property, object) GROUP BY ALL) f
        LEFT JOIN old_entities o ON o.id = f.subject LEFT JOIN new_entities n ON n.id = f.subject
    """  # noqa: S608 - our own names
