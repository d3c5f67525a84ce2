"""Whether the answer to a question over three or four facts depends on the edit.

Facts are looked up step by step, by their subjects: joined at once, the ways between two items lead through hubs, such
as a country, and there are more of them than statements.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.window import Window
from kgedit.timesteps.filters import Filter, Filtered, reason_column, split_by_reason
from kgedit.wikidata.ids import OFFICES, POSITION_HELD

PATH_FILTERS: tuple[Filter, ...] = (
    ("the start and the answer are linked directly", "linked"),
    ("a shorter path leads to the answer", "shorter"),
    ("the replaced object gives the same answer", "same_by_old_object"),
    ("the answer is the office of its holder", "office"),
)

_PATHS_AT_ONCE = 50_000
"""Paths whose lists are in memory together: those of 35,000 cases take more than the 128 MB of an export."""

_TABLES = (
    *("redirect", "pair", "near", "onward", "final", "walker", "route", "walk"),
    *("shortest", "reached", "same_answer", "old_answer"),
)


def judge_paths(window: Window, paths: pa.Table, cases: pa.Table) -> Filtered:
    """Drop paths whose answer does not depend on the edit.

    Args:
        window: Both snapshots.
        paths: From kgedit.timesteps.chains.find_paths.
        cases: Columns case_id and old_objects.

    Returns:
        The paths with old_answers: labels of the items to which the replaced objects lead in the older snapshot.
    """
    window.run(
        f"CREATE TABLE redirect AS FROM new_redirects; {_WAYS}; {_ROUTES}",
        paths=paths,
        cases=cases.select(["case_id", "old_objects"]),
    )
    for n in range(1, pc.max(paths["hops"]).as_py() or 0):
        window.run(_walk(n))
    window.run(_FOUND, paths=paths)
    parts = [paths.slice(first, _PATHS_AT_ONCE) for first in range(0, max(paths.num_rows, 1), _PATHS_AT_ONCE)]
    reasoned = pa.concat_tables([window.select(_JUDGED, part=part) for part in parts])
    window.drop(*_TABLES)
    return split_by_reason(reasoned, PATH_FILTERS)


def under_newer_ids(facts: str, redirects: str) -> str:
    """SQL: the facts with merged subjects and objects under the ids of their redirects' targets."""
    return f"""
        SELECT f.* REPLACE (coalesce(s.target, f.subject) AS subject, coalesce(o.target, f.object) AS object)
        FROM ({facts}) f LEFT JOIN {redirects} s ON s.id = f.subject LEFT JOIN {redirects} o ON o.id = f.object
    """


def _facts_of(items: str, *, side: str = "new", where: str = "true") -> str:
    """SQL: facts between items of a snapshot, under newer ids, whose subjects a query finds."""
    facts = f"""
        SELECT subject, property, object FROM {side}_facts WHERE kind = 'item' AND {where} AND subject IN (
            -- An older snapshot also has facts under the ids of merged items.
            WITH wanted AS ({items}) FROM wanted UNION SELECT id FROM redirect WHERE target IN (FROM wanted)
        )
    """
    return f"SELECT DISTINCT * FROM ({under_newer_ids(facts, 'redirect')})"


# The start and the answer of each path, their facts, those of what the start leads to, and from there to an answer.
_WAYS = f"""
    CREATE TABLE pair AS
    SELECT nodes[1] AS one, nodes[-1] AS other, max(hops) AS hops FROM paths GROUP BY ALL;
    CREATE TABLE near AS
    SELECT DISTINCT subject, object FROM ({_facts_of("SELECT one FROM pair UNION SELECT other FROM pair")});
    CREATE TABLE onward AS SELECT DISTINCT subject, object
    FROM ({_facts_of("SELECT DISTINCT object FROM near WHERE subject IN (SELECT one FROM pair)")});
    CREATE TABLE final AS SELECT DISTINCT subject, object
    FROM ({_facts_of("SELECT DISTINCT object FROM onward WHERE EXISTS (FROM pair WHERE hops = 4)")})
    WHERE object IN (SELECT other FROM pair)
"""

# Walks go from the replaced objects along the relations after the edit, in each snapshot; chains share them.
_ROUTES = """
    CREATE TABLE walker AS
    SELECT chain, dense_rank() OVER (ORDER BY case_id, properties[position + 1:]) AS route FROM paths;
    CREATE TABLE route AS
    SELECT route, any_value(case_id) AS case_id, any_value(properties[position + 1:]) AS relations
    FROM walker JOIN paths USING (chain) GROUP BY route;
    CREATE TABLE walk AS
    SELECT route, 0 AS steps, side, unnest(old_objects) AS node
    FROM route JOIN cases USING (case_id), (VALUES ('old'), ('new')) v(side)
"""


def _walk(n: int) -> str:
    """SQL of the n-th step of every walk."""
    begun = f"SELECT w.*, relations[{n}] AS property FROM walk w JOIN route USING (route) WHERE steps = {n - 1}"
    facts = " UNION ALL ".join(
        f"SELECT '{side}' AS side, * FROM ("
        + _facts_of(
            f"SELECT DISTINCT node FROM ({begun}) WHERE side = '{side}' AND property IS NOT NULL",
            side=side,
            where=f"property IN (SELECT relations[{n}] FROM route)",
        )
        + ")"
        for side in ("old", "new")
    )
    return f"""
        INSERT INTO walk
        SELECT DISTINCT route, {n}, w.side, f.object FROM ({begun}) w
        JOIN ({facts}) f ON f.side = w.side AND f.subject = node AND f.property = w.property
    """


_FOUND = """
    -- Each pair with the shortest way from the start to the answer; a fact between both counts in either direction.
    CREATE TABLE shortest AS
    WITH way AS MATERIALIZED (
        SELECT DISTINCT o.subject AS middle, f.object AS other FROM onward o JOIN final f ON f.subject = o.object
    ), found AS (
        SELECT one, other, 1 AS facts FROM pair SEMI JOIN near n ON n.subject = one AND n.object = other
        UNION ALL SELECT one, other, 1 FROM pair SEMI JOIN near n ON n.subject = other AND n.object = one
        UNION ALL SELECT one, other, 2 FROM pair JOIN near n ON n.subject = one
                  SEMI JOIN onward o ON o.subject = n.object AND o.object = other
        UNION ALL SELECT one, pair.other, 3 FROM pair JOIN near n ON n.subject = one
                  SEMI JOIN way w ON w.middle = n.object AND w.other = pair.other
    )
    SELECT one, other, min(facts) AS facts FROM found GROUP BY ALL;
    -- Walks that took all steps; the others ended at an item without the next relation.
    CREATE TABLE reached AS
    SELECT route, side, node FROM walk JOIN route USING (route) WHERE steps = len(relations);
    CREATE TABLE same_answer AS
    SELECT chain FROM (SELECT chain, nodes[-1] AS answer FROM paths) JOIN walker USING (chain)
    SEMI JOIN reached r ON r.route = walker.route AND node = answer;
    CREATE TABLE old_answer AS
    WITH old_label AS (
        -- An item that others were merged into may be missing from the older snapshot.
        SELECT route, coalesce(o.label, CASE WHEN node IN (SELECT target FROM redirect) THEN n.label END) AS label
        FROM reached LEFT JOIN old_entities o ON o.id = node LEFT JOIN new_entities n ON n.id = node
        WHERE side = 'old'
    )
    SELECT route, list(DISTINCT label ORDER BY label) AS old_answers FROM old_label
    WHERE label IS NOT NULL GROUP BY route
"""

_JUDGED = f"""
    WITH judged AS (
        SELECT p.*, coalesce(old_answers, []) AS old_answers, facts = 1 AS linked,
               -- Only a chain of four is longer than a way of three facts.
               facts < hops AS shorter,
               chain IN (FROM same_answer) AS same_by_old_object,
               len(list_filter(range(1, hops), lambda n: properties[n] IN {OFFICES}
                               AND properties[n + 1] = '{POSITION_HELD}')) > 0 AS office
        FROM part p JOIN walker USING (chain) LEFT JOIN old_answer USING (route)
        LEFT JOIN shortest ON one = nodes[1] AND other = nodes[-1]
    )
    SELECT chain, case_id, hops, position, nodes, properties, old_answers, {reason_column(PATH_FILTERS)}
    FROM judged ORDER BY chain
"""
