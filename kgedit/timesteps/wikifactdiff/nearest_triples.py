"""Neighbours of an update: triples of its relation about similar subjects that an edit must leave as they are.

For each subject the 500 most similar entities are found (kgedit.timesteps.wikifactdiff.neighbours); of these, the
likest ten with an unchanged fact of the relation give one triple each (WikiFactDiff, section 4.4). Beside them stand
triples drawn by lot from the neighbours of all updates.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
from scipy import sparse

from kgedit.timesteps.final_filters import gives_away
from kgedit.timesteps.wikifactdiff.neighbours import (
    COSINE_UNIT,
    Nearest,
    NeighbourIndex,
    inverse_frequencies,
    weigh,
)
from kgedit.timesteps.wikifactdiff.workspace import count_rows, read_table

NEAREST_ENTITIES = 500
TRIPLES = 10
"""n and k of the paper."""

_SUBJECTS_AT_ONCE = 2_048

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
"""Facts of groups that both snapshots have alike; of several objects the one whose id sorts first."""


def find_neighbours(
    workspace: duckdb.DuckDBPyConnection, *, seed: int | None = None, n: int = NEAREST_ENTITIES, k: int = TRIPLES
) -> None:
    """Table ``nearest_triple`` (subject, property, place, neighbour, object, cosine), cosine in millionths.

    Args:
        workspace: With update_group, unchanged_triple, and ``document`` (id): the items of the older snapshot among
            which neighbours are sought.
        seed: Orders entities that are equally similar; None for the order of their ids, as in Cypher.
        n: Most similar entities to look at for each subject.
        k: Triples for each update.
    """
    workspace.execute(
        "CREATE TABLE nearest_triple (subject VARCHAR, property VARCHAR, place BIGINT, neighbour VARCHAR, "
        "object VARCHAR, cosine BIGINT)"
    )
    for found in nearest_entities(workspace, n=n):
        workspace.register("found", found)
        workspace.execute(
            """
            INSERT INTO nearest_triple
            WITH near AS (SELECT s.id AS subject, d.id AS neighbour, found.number AS number, cosine FROM found
                          JOIN sought s ON s.place = found.query JOIN numbered d ON d.number = found.number)
            SELECT g.subject, g.property,
                   row_number() OVER (
                       PARTITION BY g.subject, g.property
                       ORDER BY cosine DESC, if($seed IS NULL, '', md5(concat_ws('|', $seed, g.subject, t.subject))),
                                number
                   ) AS place, t.subject, t.object, cosine
            FROM near JOIN update_group g ON g.subject = near.subject
            JOIN unchanged_triple t ON t.subject = near.neighbour AND t.property = g.property
            QUALIFY place <= $k
            """,
            {"k": k, "seed": seed},
        )
        workspace.unregister("found")


def nearest_entities(workspace: duckdb.DuckDBPyConnection, *, n: int) -> Iterator[pa.Table]:
    """The documents most like each subject of ``update_group``, some subjects at a time.

    Makes the tables ``numbered`` (number, id), documents by the number of their id, and ``sought`` (place, id).

    Yields:
        Tables query (place of the subject), number (of the document) and cosine, in millionths.
    """
    workspace.execute(_NUMBERED)
    workspace.execute(_FEATURES)
    documents, features = count_rows(workspace, "numbered"), count_rows(workspace, "feature")
    sought = count_rows(workspace, "sought")
    if not documents or not sought:
        return
    weights = inverse_frequencies(
        read_table(workspace, "SELECT holders FROM feature ORDER BY number")["holders"].to_numpy(), documents
    )
    index = NeighbourIndex(_matrix(workspace, "document_feature", (documents, features)), weights)
    queries = weigh(_matrix(workspace, "sought_feature", (sought, features)), weights)
    own = read_table(
        workspace, "SELECT coalesce(number, -1) AS own FROM sought LEFT JOIN numbered USING (id) ORDER BY place"
    )["own"].to_numpy()
    waiting: list[Nearest] = []
    for block in index.nearest(queries, own, n=n):
        waiting.append(block)
        if sum(len(part.query) for part in waiting) >= _SUBJECTS_AT_ONCE * n:
            yield _table(waiting)
            waiting = []
    if waiting:
        yield _table(waiting)


def _table(blocks: list[Nearest]) -> pa.Table:
    columns = {
        "query": np.concatenate([block.query for block in blocks]),
        "number": np.concatenate([block.document for block in blocks]),
        "cosine": np.concatenate([block.cosine for block in blocks]),
    }
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def _matrix(workspace: duckdb.DuckDBPyConnection, table: str, shape: tuple[int, int]) -> sparse.csr_array:
    """A table (line, feature, times), sorted, as a sparse matrix of how often a document has a feature."""
    narrow = "line::INTEGER AS line, feature::INTEGER AS feature, times::INTEGER AS times"
    found = read_table(workspace, f"SELECT {narrow} FROM {table} ORDER BY line, feature")  # noqa: S608 - our own names
    lines = found["line"].to_numpy()
    starts = np.searchsorted(lines, np.arange(shape[0] + 1))
    times = found["times"].to_numpy().astype(np.float64)
    return sparse.csr_array((times, found["feature"].to_numpy(), starts), shape=shape)


_NUMBERED = """
    CREATE TABLE numbered AS
    SELECT row_number() OVER (ORDER BY id[2:]::BIGINT) - 1 AS number, id FROM document;
    CREATE TABLE sought AS
    SELECT row_number() OVER (ORDER BY id[2:]::BIGINT) - 1 AS place, id
    FROM (SELECT DISTINCT subject AS id FROM update_group)
"""

_SAID = """
    SELECT subject AS id, property, object FROM {facts} WHERE kind = 'item'
"""

_FEATURES = f"""
    CREATE TABLE item_fact AS
    SELECT id, property, object FROM ({_SAID.format(facts="old_facts")}) SEMI JOIN numbered USING (id);
    CREATE TABLE sought_fact AS
    SELECT id, property, object FROM ({_SAID.format(facts="old_facts")}) SEMI JOIN sought USING (id)
    UNION ALL
    SELECT id, property, object FROM ({_SAID.format(facts="new_facts")}) SEMI JOIN sought USING (id)
    WHERE id NOT IN (SELECT id FROM old_entities);
    CREATE MACRO of_features(facts, ids) AS TABLE
        SELECT id, name, count(*) AS times FROM (
            SELECT id, property || ' ' || object AS name FROM query_table(facts)
            UNION ALL SELECT id, object FROM query_table(facts)
            UNION ALL SELECT id, id FROM query_table(ids)
        ) GROUP BY id, name;
    CREATE TABLE document_name AS FROM of_features('item_fact', 'numbered');
    CREATE TABLE sought_name AS FROM of_features('sought_fact', 'sought');
    CREATE TABLE feature AS
    SELECT row_number() OVER (ORDER BY name) - 1 AS number, name, coalesce(holders, 0) AS holders
    FROM (SELECT name, count(*) AS holders FROM document_name GROUP BY name)
    FULL JOIN (SELECT DISTINCT name FROM sought_name) USING (name);
    CREATE TABLE document_feature AS
    SELECT d.number AS line, f.number AS feature, times FROM document_name
    JOIN numbered d USING (id) JOIN feature f USING (name);
    CREATE TABLE sought_feature AS
    SELECT s.place AS line, f.number AS feature, times FROM sought_name
    JOIN sought s USING (id) JOIN feature f USING (name);
    DROP TABLE document_name; DROP TABLE sought_name; DROP TABLE item_fact; DROP TABLE sought_fact
"""  # noqa: S608 - our own names
"""An object that is no document is a feature too: two entities may share it."""


def draw_random_neighbours(workspace: duckdb.DuckDBPyConnection, *, seed: int, k: int = TRIPLES) -> None:
    """Table ``random_triple`` (subject, property, place, neighbour, neighbour_property, object).

    For each update k triples from the nearest neighbours of all updates, none about its own subject and none that names
    one of its values. What is drawn depends on the seed, the update and the set drawn from.
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
        {"seed": seed, "k": k},
    )


def similarity(cosine: str) -> str:
    """SQL of a cosine as a number from 0 to 1."""
    return f"{cosine} / {COSINE_UNIT}.0"


def find_unchanged_triples(workspace: duckdb.DuckDBPyConnection) -> None:
    """Tables ``document``, items with an article that are no pages of Wikimedia's, and ``unchanged_triple`` of them.

    Only triples stay whose subject and property have labels, and whose object can be told and is not part of the
    subject's label (New York City is a city). ``triple_object`` has the objects' words.
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
        """  # noqa: S608 - our own names
    )
