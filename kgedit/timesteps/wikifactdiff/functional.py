"""Relations with one value at a time, by constraints of Wikidata's editors or by the newer snapshot's statements.

The paper uses only constraints (appendix A). They miss relations whose values succeed one another (head coach,
chairperson, position held), and a slice of Wikidata may lack them altogether.
"""

from __future__ import annotations

import duckdb

from kgedit.engines.functionality import BOUNDS, EXCEPTIONS, declared_relations, measured_relations
from kgedit.engines.protocol import Engine
from kgedit.store.window import Window
from kgedit.timesteps.wikifactdiff.workspace import count_rows


def find_functional(engine: Engine, window: Window, by: str) -> None:
    """Create ``functional`` (property, temporal, by_point, exceptions) of single-valued relations, in the window.

    ``temporal`` is the paper's temporal functional. ``by_point`` (a constraint has point in time as separator) and
    ``exceptions`` (a constraint names some) are false if the data decide.

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
    """Count verdicts of the relations with a fact to classify in either snapshot.

    Returns:
        Numbers of relations: all, temporal functional ones, single-valued ones; and of the temporal ones with
        constraints that have exceptions, which the store does not keep.
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
