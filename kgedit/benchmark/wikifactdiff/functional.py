"""Which relations have one value at a time: as Wikidata's editors declare, or as the newer snapshot's statements show.

The paper honours the constraints alone (appendix A). They miss relations whose values follow one another (head coach,
chairperson, position held), and a slice of Wikidata may lack them altogether.
"""

from __future__ import annotations

import duckdb

from kgedit.benchmark.wikifactdiff.workspace import count_rows
from kgedit.store.functionality import SINGLE_VALUE_CONSTRAINT, measured_relations
from kgedit.wikidata.ids import EXCEPTION_TO_CONSTRAINT, POINT_IN_TIME, TIME_QUALIFIERS


def find_functional(workspace: duckdb.DuckDBPyConnection, by: str) -> None:
    """Table ``functional`` (property, temporal, by_point, exceptions) of single-valued relations.

    ``temporal`` is what the paper calls temporal functional. ``by_point`` (a constraint separates by point in time) and
    ``exceptions`` (a constraint names some) are false where the data decide.

    Args:
        workspace: With the views old_claims, new_claims, new_facts and new_entities.
        by: "constraints" or "data".
    """
    workspace.execute(_DECLARED if by == "constraints" else _MEASURED)


def count_functional(workspace: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """What the verdict says of the relations that have a fact in either snapshot to be judged.

    Returns:
        Numbers of relations: all, temporal functional ones, single-valued ones; and how many of the temporal ones have
        constraints with exceptions, which the store does not know by name.
    """
    temporal = "property IN (SELECT property FROM fact) AND temporal"
    return {
        "relations": count_rows(workspace, "(SELECT DISTINCT property FROM fact)"),
        "temporal functional": count_rows(workspace, f"functional WHERE {temporal}"),
        "single-valued": count_rows(
            workspace, "functional WHERE property IN (SELECT property FROM fact) AND NOT temporal"
        ),
        "temporal functional with exceptions": count_rows(workspace, f"functional WHERE {temporal} AND exceptions"),
    }


_DECLARED = f"""
    CREATE TABLE functional AS
    SELECT subject AS property, bool_or(list_has_any(separators, {list(TIME_QUALIFIERS)})) AS temporal,
           bool_or(list_contains(separators, '{POINT_IN_TIME}')) AS by_point,
           bool_or(list_contains(qualifier_properties, '{EXCEPTION_TO_CONSTRAINT}')) AS exceptions
    FROM (SELECT subject, separators, qualifier_properties FROM new_claims WHERE {SINGLE_VALUE_CONSTRAINT}
          UNION ALL
          SELECT subject, separators, qualifier_properties FROM old_claims
          WHERE {SINGLE_VALUE_CONSTRAINT} AND subject NOT IN (SELECT id FROM new_entities))
    GROUP BY subject
"""  # noqa: S608 - our own names

_MEASURED = f"""
    CREATE TABLE functional AS
    SELECT property, measured = 'temporal' AS temporal, false AS by_point, false AS exceptions
    FROM ({measured_relations("new_facts", "new_claims")}) WHERE measured <> 'several'
"""  # noqa: S608 - our own names
