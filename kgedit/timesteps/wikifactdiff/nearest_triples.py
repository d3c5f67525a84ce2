"""Neighbours of an update: triples of its relation about similar subjects that an edit must not change.

For each subject the 500 most similar entities are found (kgedit.timesteps.engines.sparse_cosine); of these, the
ten most similar ones with an unchanged fact of the relation give one triple each (WikiFactDiff, section 4.4). They are
complemented by random triples from the neighbours of all updates.
"""

from __future__ import annotations

import duckdb

from kgedit.store.window import Window
from kgedit.timesteps.engines.protocol import Engine
from kgedit.timesteps.engines.sparse_cosine import COSINE_UNIT
from kgedit.timesteps.final_filters import gives_away

NEAREST_ENTITIES = 500
TRIPLES = 10
"""n and k of the paper."""

UNCHANGED_TRIPLES = """
    CREATE TABLE unchanged_triple AS
    WITH o AS (
        SELECT subject, property, list_sort(list(object)) AS objects FROM old_facts
        SEMI JOIN (SELECT DISTINCT property FROM update_group) USING (property)
        WHERE subject[1] = 'Q' AND kind IN ('item', 'value') GROUP BY subject, property
    ), n AS (
        SELECT subject, property, list_sort(list(object)) AS objects FROM new_facts
        SEMI JOIN (SELECT DISTINCT property FROM update_group) USING (property)
        WHERE subject[1] = 'Q' AND kind IN ('item', 'value') GROUP BY subject, property
    )
    SELECT o.subject, o.property, o.objects[1] AS object FROM o JOIN n USING (subject, property, objects)
    ANTI JOIN update_group USING (subject, property)
"""
"""Facts of groups that are equal in both snapshots; of several objects the one whose id sorts first."""


def find_neighbours(
    engine: Engine, window: Window, *, seed: int | None = None, n: int = NEAREST_ENTITIES, k: int = TRIPLES
) -> None:
    """Create ``nearest_triple`` (subject, property, place, neighbour, object, cosine), cosine in millionths.

    Args:
        engine: Finds the most similar entities.
        window: Window with update_group, unchanged_triple, and ``document`` (id): items of the older snapshot that may
            be neighbours.
        seed: Seed of the order of equally similar entities; None orders them by id, as in Cypher.
        n: Number of most similar entities to consider per subject.
        k: Maximum number of triples per update.
    """
    window.run(
        "CREATE TABLE nearest_triple (subject VARCHAR, property VARCHAR, place BIGINT, neighbour VARCHAR, "
        "object VARCHAR, cosine BIGINT)"
    )
    subjects = window.select("SELECT DISTINCT subject AS id FROM update_group")
    documents = window.select("SELECT id FROM document")
    order = "''" if seed is None else f"md5(concat_ws('|', {int(seed)}, g.subject, t.subject))"
    for found in engine.nearest_entities(window, subjects, documents, n=n):
        window.run(
            f"""
            INSERT INTO nearest_triple
            SELECT g.subject, g.property,
                   row_number() OVER (
                       PARTITION BY g.subject, g.property
                       ORDER BY cosine DESC, {order}, t.subject[2:]::BIGINT
                   ) AS place, t.subject, t.object, cosine
            FROM found JOIN update_group g USING (subject)
            JOIN unchanged_triple t ON t.subject = found.neighbour AND t.property = g.property
            QUALIFY place <= {int(k)}
            """,
            found=found,
        )


def draw_random_neighbours(workspace: duckdb.DuckDBPyConnection, *, seed: int) -> None:
    """Create ``random_triple`` (subject, property, place, neighbour, neighbour_property, object).

    For each update ten triples from the nearest neighbours of all updates, none about its own subject and none that
    names one of its values. The draw depends on the seed, the update and the set drawn from.
    """
    workspace.execute(
        """
        CREATE TABLE random_triple AS
        WITH pool AS (
            SELECT row_number() OVER (ORDER BY neighbour, property, object) - 1 AS number, *
            FROM (SELECT DISTINCT neighbour, property, object FROM nearest_triple)
        ), drawn AS (
            SELECT subject, property, draw,
                   md5_number_lower(concat_ws('|', $seed::VARCHAR, subject, property, draw::VARCHAR))
                       % (SELECT greatest(count(*), 1) FROM pool) AS number
            FROM update_group, range(3 * $k) AS draws(draw)
        ), once AS (
            SELECT d.subject, d.property, p.neighbour, p.property AS neighbour_property, p.object, min(draw) AS draw
            FROM drawn d JOIN pool p USING (number) WHERE p.neighbour <> d.subject GROUP BY ALL
        ), apart AS (
            SELECT once.* FROM once
            ANTI JOIN update_object own ON own.subject = once.subject AND own.property = once.property
                                       AND own.object IN (once.neighbour, once.object)
        )
        SELECT subject, property, row_number() OVER (PARTITION BY subject, property ORDER BY draw) AS place, neighbour,
               neighbour_property, object FROM apart QUALIFY place <= $k
        """,
        {"seed": seed, "k": TRIPLES},
    )


def similarity(cosine: str) -> str:
    """SQL of a cosine as a number from 0 to 1."""
    return f"{cosine} / {COSINE_UNIT}.0"


def find_unchanged_triples(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create ``document``, items with an article that are not Wikimedia pages, and ``unchanged_triple`` of these.

    Triples are kept if their subject and property have labels, and their object has a text that is not part of the
    subject's label (New York City is a city). ``triple_object`` has the texts of the objects.
    """
    workspace.execute(
        """
        CREATE TABLE document AS
        SELECT id FROM old_entities SEMI JOIN (SELECT id FROM known WHERE wiki_title IS NOT NULL) USING (id)
        WHERE kind = 'item' AND id NOT IN (FROM page)
        """
    )
    workspace.execute(UNCHANGED_TRIPLES)
    workspace.execute(
        """
        CREATE TABLE triple_object AS
        WITH held AS (
            SELECT object, any_value(kind) AS kind, any_value(value_type) AS value_type, any_value(value) AS value,
                   any_value(unit) AS unit, any_value(precision) AS precision
            FROM old_facts SEMI JOIN (SELECT DISTINCT object FROM unchanged_triple) USING (object) GROUP BY object
        )
        SELECT object, CASE held.kind WHEN 'item' THEN label
                            ELSE say_literal(value_type, value, precision, unit_name) END AS label,
               CASE held.kind WHEN 'item' THEN description ELSE name_literal(value_type, precision) END AS description,
               CASE held.kind WHEN 'item' THEN coalesce(aliases, []) ELSE list_filter(
                   spell_literal(value_type, value, precision, unit_name),
                   lambda x: x <> say_literal(value_type, value, precision, unit_name)) END AS aliases
        FROM held LEFT JOIN known ON id = object LEFT JOIN unit USING (unit)
        """
    )
    workspace.execute(
        """
        DELETE FROM unchanged_triple
        WHERE subject NOT IN (SELECT id FROM document JOIN known USING (id) WHERE label IS NOT NULL)
           OR object NOT IN (SELECT object FROM triple_object WHERE label IS NOT NULL)
           OR object IN (FROM page)
           OR property IN (FROM unnamed_property)
        """
    )
    workspace.execute(
        f"""
        DELETE FROM unchanged_triple t USING known s, triple_object o
        WHERE s.id = t.subject AND o.object = t.object AND {gives_away("s.label", "o.label")}
        """
    )
