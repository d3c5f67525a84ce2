"""Which relations have one value at a time: as Wikidata's editors declare, or as the newer snapshot's statements show.

The paper honours the constraints alone (appendix A). They miss relations whose values follow one another (head coach,
chairperson, position held), and a slice of Wikidata may lack them altogether.
"""

from __future__ import annotations

import duckdb

from kgedit.engines.functionality import BOUNDS, EXCEPTIONS, declared_relations, measured_relations
from kgedit.engines.protocol import Engine
from kgedit.store.window import Window
from kgedit.timesteps.wikifactdiff.workspace import count_rows


def find_functional(engine: Engine, window: Window, by: str) -> None:
    """Table ``functional`` (property, temporal, by_point, exceptions) of single-valued relations, in the window.

    ``temporal`` is what the paper calls temporal functional. ``by_point`` (a constraint separates by point in time) and
    ``exceptions`` (a constraint names some) are false where the data decide.

    Args:
        engine: Counts values, or finds constraints.
        window: Both snapshots.
        by: "constraints" or "data".
    """
    if by == "constraints":
        window.run(_DECLARED, answer=engine.functional_by_constraint(window))
        return
    properties = window.select("SELECT DISTINCT property FROM new_facts")
    window.run(_MEASURED, answer=engine.functional_by_data(window, properties, min_subjects=BOUNDS.subjects))


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
    SELECT property, temporal, by_point, property IN (
        {EXCEPTIONS} UNION
        {EXCEPTIONS.replace("new_claims", "old_claims")} AND subject NOT IN (SELECT id FROM new_entities)
    ) AS exceptions
    FROM ({declared_relations("answer")})
"""  # noqa: S608 - our own names

_MEASURED = f"""
    CREATE TABLE functional AS
    SELECT property, measured = 'temporal' AS temporal, false AS by_point, false AS exceptions
    FROM ({measured_relations("answer", "new_claims")}) WHERE measured <> 'several'
"""  # noqa: S608 - our own names
