"""What the Cypher files must find, computed from the claims alone in DuckDB: the oracle of the graph tests.

Written from the rules in words (docs/decisions.md, headers of the query files), and not from kgedit.store.facts: it
decides what is current by counting over pairs of statements, where the store takes statements away step by step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import duckdb

from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot

_VALUE_ID = """
    'V' || md5(concat_ws(chr(31), CASE WHEN datatype IN ('quantity', 'time', 'monolingualtext', 'globe-coordinate')
                                       THEN datatype ELSE 'string' END,
               coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''), coalesce(precision, ''),
               coalesce(calendar, '')))
"""


class Oracle:
    """Answers for the pair of an older and a newer snapshot."""

    def __init__(self, old: Snapshot, new: Snapshot) -> None:
        self._db = duckdb.connect()
        for name, snapshot in (("old", old), ("new", new)):
            self._db.execute(f"CREATE VIEW {name}_entities AS SELECT * FROM {literal(snapshot.entities)}")
            self._db.execute(f"CREATE VIEW {name}_claims AS SELECT * FROM {literal(snapshot.claims)}")
            self._current(name, snapshot.date)
        self._db.execute(
            "CREATE TABLE redirect AS SELECT id, redirect_target AS target FROM new_entities "
            "WHERE redirect_target IS NOT NULL"
        )
        for name in ("old", "new"):
            # Under the ids that the newer snapshot redirects to.
            self._db.execute(
                f"CREATE TABLE {name}_merged AS SELECT DISTINCT subject, property, coalesce(target, object) AS object, "
                f"coalesce(target, object)[1] = 'Q' AS is_item FROM {name}_current LEFT JOIN redirect ON id = object"
            )

    def _current(self, name: str, date: int) -> None:
        self._db.execute(
            f"""
            CREATE TABLE {name}_alive AS
            SELECT *, coalesce(object, CASE WHEN snak = 'value' THEN {_VALUE_ID} END) AS said,
                   CASE rank WHEN 'preferred' THEN 2 ELSE 1 END AS grade
            FROM {name}_claims
            WHERE rank IN ('normal', 'preferred') AND restricted = false
              AND coalesce(end_precision, 0) <> -1 AND coalesce(end_until, {date} + 1) > {date}
              AND coalesce(start_first, {date}) <= {date}
            """
        )
        self._db.execute(
            f"""
            CREATE TABLE {name}_holding AS
            SELECT * FROM {name}_alive a WHERE NOT (
                coalesce(end_first = {date} AND end_precision = 11, false)
                AND 0 < (SELECT count(*) FROM {name}_alive b
                         WHERE b.subject = a.subject AND b.property = a.property
                           AND coalesce(b.said, b.snak) <> coalesce(a.said, a.snak)
                           AND b.start_first = {date} AND b.start_precision = 11
                           AND (b.end_first IS NULL OR b.end_first <> {date} OR b.end_precision <> 11)))
            """
        )
        self._db.execute(
            f"""
            CREATE TABLE {name}_current AS
            SELECT subject, property, said AS object, min(statement_id) AS statement_id,
                   bool_or(start_precision IS NOT NULL OR end_precision IS NOT NULL) AS dated
            FROM {name}_holding h
            WHERE snak = 'value' AND grade = (SELECT max(grade) FROM {name}_holding x
                                              WHERE x.subject = h.subject AND x.property = h.property)
            GROUP BY ALL
            """
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._db.execute(query).fetchall()

    def facts(self, side: str) -> list[tuple[Any, ...]]:
        """Subject, property, object of every fact of the "old" or the "new" snapshot."""
        return self.rows(f"SELECT subject, property, object FROM {side}_current ORDER BY ALL")

    def changed_edges(self) -> list[tuple[Any, ...]]:
        """Without labels."""
        return self.rows(
            """
            WITH o AS (SELECT subject, property, list_sort(list(object)) AS objects, bool_and(is_item) AS items
                       FROM old_merged GROUP BY ALL),
                 n AS (SELECT subject, property, list_sort(list(object)) AS objects, bool_and(is_item) AS items
                       FROM new_merged GROUP BY ALL)
            SELECT subject, property, coalesce(o.objects, []), coalesce(n.objects, []),
                   coalesce(o.items, true) AND coalesce(n.items, true),
                   subject IN (SELECT id FROM old_entities WHERE redirect_target IS NULL),
                   subject IN (SELECT id FROM new_entities WHERE redirect_target IS NULL)
            FROM o FULL JOIN n USING (subject, property)
            WHERE o.objects IS DISTINCT FROM n.objects
            ORDER BY subject, property
            """
        )

    def two_hops(self, stop: list[str]) -> list[tuple[Any, ...]]:
        """Without labels. New facts that name a merged object make no pair."""
        self._db.execute(
            """
            CREATE OR REPLACE TEMP TABLE added AS
            SELECT subject, property, object FROM new_current n
            WHERE object[1] = 'Q' AND object NOT IN (SELECT id FROM redirect) AND subject[1] = 'Q'
              AND NOT list_contains(?, property)
              AND subject IN (SELECT id FROM old_entities WHERE redirect_target IS NULL)
              AND subject IN (SELECT id FROM new_entities WHERE redirect_target IS NULL)
              AND NOT EXISTS (SELECT 1 FROM old_merged o WHERE o.subject = n.subject AND o.property = n.property
                              AND o.object = n.object)
            """,
            [stop],
        )
        return self.rows(
            """
            SELECT a.subject, a.property, a.object, b.property, b.object FROM added a
            JOIN added b ON b.subject = a.object
            WHERE b.object <> a.subject AND b.object <> a.object AND a.object <> a.subject ORDER BY ALL
            """
        )

    def hops(self, items: list[str], end: str, *, fan: int, max_df: int) -> list[tuple[Any, ...]]:
        """Facts around items, one by one: those that begin ("subject") or end ("object") there."""
        values: dict[tuple[str, str], list[str]] = defaultdict(list)
        named: Counter[str] = Counter()
        for subject, relation, thing in self.facts("new"):
            values[subject, relation].append(thing)
            named[thing] += 1
        old, merged = set(self.facts("old")), {row[0] for row in self.rows("SELECT id FROM redirect")}
        around: dict[str, list[tuple[int, str, tuple[str, str, str]]]] = {name: [] for name in items}
        for (subject, relation), things in values.items():
            fact = (subject, relation, things[0])
            here, there = (subject, things[0]) if end == "subject" else (things[0], subject)
            single = len(things) == 1 and fact in old and here != there
            if single and here in around and subject[0] == things[0][0] == "Q" and things[0] not in merged:
                drawn = (int(there[1:]) * 7919 + int(relation[1:]) * 104729) % 1000003
                around[here].append((drawn, relation, fact))
        found = []
        for name, own in around.items():
            one_each: dict[str, tuple[int, str, tuple[str, str, str]]] = {}
            for drawn, relation, fact in sorted(own, key=lambda each: (each[0], each[2])):
                one_each.setdefault(relation, (drawn, relation, fact))
            if end == "subject" or named[name] <= max_df:
                found += [fact for _, _, fact in sorted(one_each.values())[:fan]]
        return sorted(found)

    def diff_counts(self) -> list[tuple[Any, ...]]:
        """Property, facts begun, facts ended, by their own ids."""
        return self.rows(
            """
            SELECT property, sum(begun)::BIGINT, sum(ended)::BIGINT FROM (
                SELECT property, 1 AS begun, 0 AS ended FROM new_current ANTI JOIN old_current
                USING (subject, property, object)
                UNION ALL
                SELECT property, 0, 1 FROM old_current ANTI JOIN new_current USING (subject, property, object)
            ) GROUP BY property ORDER BY property
            """
        )

    def functional_by_data(self, min_subjects: int) -> list[tuple[Any, ...]]:
        """Property, subjects, share with one object, share of dated facts."""
        return self.rows(
            f"""
            SELECT property, count(*), count(*) FILTER (n = 1) / count(*) AS functional
            FROM (SELECT subject, property, count(*) AS n FROM new_current GROUP BY ALL)
            GROUP BY property HAVING count(*) >= {min_subjects} ORDER BY property
            """
        )

    def functional_by_constraint(self) -> list[tuple[Any, ...]]:
        return self.rows(
            """
            SELECT DISTINCT c.subject, e.label,
                   CASE c.object WHEN 'Q19474404' THEN 'single value' ELSE 'single best value' END AS kind,
                   c.separators, list_has_any(c.separators, ['P580', 'P582', 'P585'])
            FROM new_claims c LEFT JOIN new_entities e ON e.id = c.subject
            WHERE c.snak = 'value' AND c.property = 'P2302' AND c.rank <> 'deprecated'
              AND c.object IN ('Q19474404', 'Q52060874')
            ORDER BY c.subject, kind, c.separators
            """
        )

    def static_facts(self, properties: list[str]) -> list[tuple[Any, ...]]:
        self._db.execute(
            """
            CREATE OR REPLACE TEMP TABLE static AS
            WITH sides AS (SELECT 'old' AS side, * FROM old_current UNION ALL SELECT 'new', * FROM new_current)
            SELECT subject, property, min(object) AS object FROM sides
            WHERE subject[1] = 'Q' AND list_contains(?, property)
            GROUP BY subject, property
            HAVING count(*) = 2 AND count(DISTINCT side) = 2 AND count(DISTINCT object) = 1 AND min(object)[1] = 'Q'
            """,
            [properties],
        )
        return self.rows("SELECT subject, property, object FROM static ORDER BY property, subject")

    def edited(self) -> set[str]:
        """Subjects with a fact that only one of the snapshots has."""
        rows = self.rows(
            """
            SELECT subject FROM old_current ANTI JOIN new_current USING (subject, property, object)
            UNION SELECT subject FROM new_current ANTI JOIN old_current USING (subject, property, object)
            """
        )
        return {row[0] for row in rows}

    def items(self) -> int:
        """Items of the older snapshot."""
        count = "SELECT count(*) FROM old_entities WHERE kind = 'item' AND redirect_target IS NULL"
        return int(self.rows(count)[0][0])

    def similar_static_facts(self, edits: list[tuple[str, str]], *, max_df: int, k: int) -> list[tuple[Any, ...]]:
        """Subject and property of an edit, similar subject, object and score, by rank."""
        self.static_facts(sorted({property_id for _, property_id in edits}))
        self._db.execute("CREATE OR REPLACE TEMP TABLE edit (subject VARCHAR, property VARCHAR)")
        self._db.executemany("INSERT INTO edit VALUES (?, ?)", [list(edit) for edit in edits])
        return self.rows(
            f"""
            WITH edited AS (
                SELECT subject FROM (
                    SELECT subject, list_sort(list(property || object)) AS facts FROM old_current GROUP BY subject
                ) o FULL JOIN (
                    SELECT subject, list_sort(list(property || object)) AS facts FROM new_current GROUP BY subject
                ) n USING (subject) WHERE o.facts IS DISTINCT FROM n.facts
            ), pair AS (
                SELECT property, object, count(*) AS n FROM old_current WHERE subject[1] = 'Q'
                GROUP BY ALL HAVING count(*) <= {max_df}
            ), score AS (
                SELECT e.subject, e.property, b.subject AS other,
                       sum(round(1e6 * ln({self.items()}::DOUBLE / pair.n))::BIGINT) / 1e6 AS score
                FROM edit e JOIN old_current a ON a.subject = e.subject AND a.property <> e.property
                JOIN pair ON pair.property = a.property AND pair.object = a.object
                JOIN old_current b ON b.property = a.property AND b.object = a.object
                WHERE b.subject <> e.subject AND b.subject[1] = 'Q' GROUP BY ALL
            )
            SELECT score.subject, score.property, other, static.object, score FROM score
            JOIN static ON static.subject = other AND static.property = score.property
            WHERE other NOT IN (SELECT subject FROM edited) AND static.object NOT IN (SELECT subject FROM edited)
              AND NOT EXISTS (FROM (FROM old_current UNION ALL FROM new_current) own WHERE own.subject = score.subject
                              AND own.property = score.property AND own.object = static.object)
            QUALIFY row_number() OVER (PARTITION BY score.subject, score.property ORDER BY score DESC, other) <= {k}
            ORDER BY score.subject, score.property, score DESC, other
            """
        )
