"""Finds paths of three and four facts through an edit, and judges whether their answer depends on it.

Facts are looked up step by step, by their subjects: joined at once, the ways between two items lead through hubs, such
as a country, and there are more of them than statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.window import Window
from kgedit.timesteps.engines import HOPS, Engine
from kgedit.timesteps.filters import Filter, Filtered, reason_column, split_by_reason
from kgedit.wikidata.ids import OFFICES, POSITION_HELD

PATH_FILTERS: tuple[Filter, ...] = (
    ("the start and the answer are linked directly", "linked"),
    ("a shorter path leads to the answer", "shorter"),
    ("the replaced object gives the same answer", "same_by_old_object"),
    ("the answer is the office of its holder", "office"),
)

CHAIN_QUERIES = ("hops_from", "hops_to")
"""Each is a file of cypher/read and one of kgedit/timesteps/engines/sql."""

MOST_HOPS = 4
"""Longest chain, as in MQuAKE; longer questions are hard to read."""

# FAN and _CANDIDATES are guesses that bound the search around items with hundreds of facts: three facts a step
# are 27 paths of four facts in one direction, and only one path of each length is asked.
FAN = 3
"""Maximum number of facts by which a chain continues from an item, in either direction."""

MAX_DF = 10_000
"""An item that more facts name, such as a large country, is not entered backwards: the search reads all of them."""

_CANDIDATES = 24
"""Paths of each length that are judged for a case; one of them is asked."""

_CASES_AT_ONCE = 1000
"""Cases whose paths are found together: those of 9,000 take more than the 128 MB of an export."""

_PATHS_AT_ONCE = 50_000
"""Paths whose lists are in memory together: those of 35,000 cases take more than the 128 MB of an export."""

_TABLES = (
    *("redirect", "pair", "near", "onward", "final", "walker", "route", "walk"),
    *("shortest", "reached", "same_answer", "old_answer"),
)


def find_paths(
    engine: Engine, window: Window, cases: pa.Table, properties: list[str], *, hops: int, seed: int
) -> pa.Table:
    """Find paths of three to `hops` facts through cases, without a repeated item or relation, of unchanged facts.

    Returns:
        Columns chain (a number), case_id, hops, position (of the edit, from 1), nodes (ids of the items, one more
        than hops) and properties; at most 24 rows per case and length, ordered by case_id, hops, properties and nodes.
    """
    onward, back = _HopsAround(window), _HopsAround(window)
    onward.spread(
        "object", cases["object"], hops - 1, lambda items: engine.hops_from(window, items, properties, fan=FAN)
    )
    back.spread(
        "subject",
        cases["subject"],
        hops - 1,
        lambda items: engine.hops_to(window, items, properties, fan=FAN, max_df=MAX_DF),
    )
    ordered = cases.select(["case_id", "subject", "property", "object"]).sort_by("case_id")
    query, parameters = _draw_paths(hops), {"hops": hops, "seed": str(seed)}
    found = pa.concat_tables(
        window.select(query, parameters, edits=edits, onward=onward.found, back=back.found)
        for edits in _parts(ordered, _CASES_AT_ONCE)
    )
    return found.add_column(0, "chain", pa.array(range(1, found.num_rows + 1), pa.int64()))


def _draw_paths(hops: int) -> str:
    """SQL of the paths through ``edits``, by the facts ``onward`` from objects and ``back`` from subjects."""
    steps = "".join(
        f""", after_{n} AS (
            SELECT case_id, list_append(nodes, h.object) AS nodes, list_append(properties, h.property) AS properties
            FROM after_{n - 1} JOIN onward h ON h.subject = nodes[-1]
            WHERE NOT list_contains(nodes, h.object) AND NOT list_contains(properties, h.property)
        ), before_{n} AS (
            SELECT case_id, list_prepend(h.subject, nodes) AS nodes,
                   list_prepend(h.property, properties) AS properties
            FROM before_{n - 1} JOIN back h ON h.object = nodes[1]
            WHERE NOT list_contains(nodes, h.subject) AND NOT list_contains(properties, h.property)
        )"""
        for n in range(1, hops)
    )
    both = {side: " UNION ALL ".join(f"FROM {side}_{n}" for n in range(hops)) for side in ("after", "before")}
    return f"""
        WITH after_0 AS (
            SELECT case_id, [object] AS nodes, [property] AS properties FROM edits
        ), before_0 AS (
            SELECT case_id, [subject] AS nodes, []::VARCHAR[] AS properties FROM edits
        ){steps}, path AS (
            SELECT case_id, len(b.properties) + len(a.properties) AS hops, len(b.properties) + 1 AS position,
                   list_concat(b.nodes, a.nodes) AS nodes, list_concat(b.properties, a.properties) AS properties
            FROM ({both["before"]}) b JOIN ({both["after"]}) a USING (case_id)
            WHERE len(b.properties) + len(a.properties) BETWEEN 3 AND $hops
                  AND NOT list_has_any(b.nodes, a.nodes) AND NOT list_has_any(b.properties, a.properties)
        )
        -- Ranked by a hash: a draw depends neither on the other paths nor on their order.
        FROM path QUALIFY row_number() OVER (
            PARTITION BY case_id, hops
            ORDER BY md5(concat_ws('|', $seed, array_to_string(nodes, '|'), array_to_string(properties, '|')))
        ) <= {_CANDIDATES}
        ORDER BY case_id, hops, properties, nodes
    """


class _HopsAround:
    """Facts around items, found step by step."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.found = HOPS.empty_table()

    def spread(self, end: str, items: pa.ChunkedArray, steps: int, ask: Callable[[pa.Table], pa.Table]) -> None:
        """Find the facts around items, then those around their other ends, and so on.

        Args:
            end: Column of HOPS where the next step begins.
            items: Ids.
            steps: Number of steps.
            ask: Function from a table with the column id to HOPS.
        """
        done = pa.table({"id": pa.array([], pa.string())})
        waiting = pa.table({"id": items.unique()})
        for _ in range(steps):
            if not waiting.num_rows:
                return
            new = ask(waiting)
            self.found = pa.concat_tables([self.found, new])
            done = pa.concat_tables([done, waiting])
            waiting = self._window.select(
                f"SELECT DISTINCT {end} AS id FROM new ANTI JOIN done ON {end} = done.id ORDER BY id",
                new=new,
                done=done,
            )


def judge_paths(window: Window, paths: pa.Table, cases: pa.Table) -> Filtered:
    """Drop paths whose answer does not depend on the edit.

    Args:
        window: Both snapshots.
        paths: From find_paths.
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
    reasoned = pa.concat_tables(window.select(_JUDGED, part=part) for part in _parts(paths, _PATHS_AT_ONCE))
    window.drop(*_TABLES)
    return split_by_reason(reasoned, PATH_FILTERS)


def _parts(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """Parts of some rows, at least one."""
    return (rows.slice(first, size) for first in range(0, max(rows.num_rows, 1), size))


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
