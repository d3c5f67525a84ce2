"""What the Cypher files must find, computed from the store alone in DuckDB: the oracle of the graph tests.

Written from the definitions in the headers of the query files, over the snapshots as loaded, not over versions.
"""

from __future__ import annotations

from typing import Any

import duckdb

from kgedit.store.snapshots import Snapshot


class Oracle:
    """Answers for the pair of an older and a newer snapshot."""

    def __init__(self, old: Snapshot, new: Snapshot) -> None:
        self._db = duckdb.connect()
        for name, snapshot in (("old", old), ("new", new)):
            self._db.execute(f"CREATE VIEW {name}_entities AS SELECT * FROM '{snapshot.entities}'")
            self._db.execute(f"CREATE VIEW {name}_claims AS SELECT * FROM '{snapshot.claims}' WHERE snak = 'value'")
        self._db.execute(
            "CREATE TABLE redirect AS SELECT id, redirect_target AS target FROM new_entities "
            "WHERE redirect_target IS NOT NULL"
        )
        for name, snapshot in (("old", old), ("new", new)):
            self._current(name, snapshot.date)

    def _current(self, name: str, date: int) -> None:
        self._db.execute(
            f"""
            CREATE TABLE {name}_current AS
            WITH holding AS (
                SELECT subject, property, rank, c.statement_id,
                       coalesce(r.target, c.object, 'V' || md5(concat_ws(chr(31), datatype, coalesce(value, ''),
                           coalesce(unit, ''), coalesce(language, ''), coalesce(precision, ''),
                           coalesce(calendar, '')))) AS object,
                       c.object[1] = 'Q' IS TRUE AS is_item
                FROM {name}_claims c LEFT JOIN redirect r ON r.id = c.object
                WHERE rank <> 'deprecated'
                  AND end_precision IS DISTINCT FROM -1 AND (end_until IS NULL OR end_until > {date})
                  AND (start_first IS NULL OR start_first <= {date})
            )
            SELECT * FROM holding
            QUALIFY rank = 'preferred' OR count(*) FILTER (rank = 'preferred') OVER (PARTITION BY subject, property) = 0
            """
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._db.execute(query).fetchall()

    def changed_edges(self) -> list[tuple[Any, ...]]:
        return self.rows(
            """
            WITH o AS (SELECT subject, property, list_sort(list_distinct(list(object))) AS objects,
                              bool_and(is_item) AS items
                       FROM old_current GROUP BY ALL),
                 n AS (SELECT subject, property, list_sort(list_distinct(list(object))) AS objects,
                              bool_and(is_item) AS items
                       FROM new_current GROUP BY ALL),
                 s AS (SELECT subject, property, list(statement ORDER BY object) AS statements FROM
                       (SELECT subject, property, object, min(statement_id) AS statement FROM new_current GROUP BY ALL)
                       GROUP BY ALL)
            SELECT subject, property, coalesce(o.objects, []), coalesce(n.objects, []), coalesce(s.statements, []),
                   coalesce(o.items, true) AND coalesce(n.items, true),
                   subject IN (SELECT id FROM old_entities WHERE redirect_target IS NULL),
                   subject IN (SELECT id FROM new_entities WHERE redirect_target IS NULL)
            FROM o FULL JOIN n USING (subject, property) LEFT JOIN s USING (subject, property)
            WHERE o.objects IS DISTINCT FROM n.objects
            ORDER BY subject, property
            """
        )

    def two_hops(self, stop: list[str]) -> list[tuple[Any, ...]]:
        self._db.execute(
            """
            CREATE OR REPLACE TEMP TABLE added AS
            SELECT DISTINCT subject, property, object FROM new_current n
            WHERE is_item AND subject[1] = 'Q' AND NOT list_contains(?, property)
              AND subject IN (SELECT id FROM old_entities WHERE redirect_target IS NULL)
              AND subject IN (SELECT id FROM new_entities WHERE redirect_target IS NULL)
              AND NOT EXISTS (SELECT 1 FROM old_current o WHERE o.subject = n.subject AND o.property = n.property
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

    def functional_by_data(self, min_subjects: int) -> list[tuple[Any, ...]]:
        return self.rows(
            f"""
            WITH single AS (SELECT property, count(*) AS subjects, count(*) FILTER (objects = 1) AS single FROM
                            (SELECT subject, property, count(DISTINCT object) AS objects FROM new_current GROUP BY ALL)
                            GROUP BY property),
                 dated AS (SELECT property,
                                  count(*) FILTER (start_precision IS NOT NULL OR end_precision IS NOT NULL) / count(*)
                                  AS dated
                           FROM new_claims WHERE rank <> 'deprecated' GROUP BY property)
            SELECT property, subjects, single / subjects, dated FROM single JOIN dated USING (property)
            WHERE subjects >= {min_subjects} ORDER BY property
            """
        )

    def functional_by_constraint(self) -> list[tuple[Any, ...]]:
        return self.rows(
            """
            SELECT DISTINCT c.subject, e.label,
                   CASE c.object WHEN 'Q19474404' THEN 'single value' ELSE 'single best value' END AS kind,
                   c.separators, list_has_any(c.separators, ['P580', 'P582', 'P585'])
            FROM new_claims c LEFT JOIN new_entities e ON e.id = c.subject
            WHERE c.property = 'P2302' AND c.rank <> 'deprecated' AND c.object IN ('Q19474404', 'Q52060874')
            ORDER BY c.subject, kind, c.separators
            """
        )

    def static_facts(self, properties: list[str]) -> list[tuple[Any, ...]]:
        self._db.execute(
            """
            CREATE OR REPLACE TEMP TABLE static AS
            WITH one AS (SELECT 'old' AS side, subject, property, any_value(object) AS object,
                                bool_and(is_item) AS items
                         FROM old_current GROUP BY ALL HAVING count(DISTINCT object) = 1
                         UNION ALL
                         SELECT 'new', subject, property, any_value(object), bool_and(is_item)
                         FROM new_current GROUP BY ALL HAVING count(DISTINCT object) = 1)
            SELECT subject, property, object FROM one
            WHERE items AND subject[1] = 'Q' AND list_contains(?, property)
            GROUP BY ALL HAVING count(*) = 2 ORDER BY property, subject
            """,
            [properties],
        )
        return self.rows("SELECT subject, property, object FROM static ORDER BY property, subject")

    def similar_static_facts(
        self,
        edits: list[dict[str, Any]],
        edited: list[str],
        *,
        items: int,
        max_df: int,
        k: int,
        degrees: dict[str, int],
    ) -> list[tuple[Any, ...]]:
        """Similarity over the (property, object) pairs of the older snapshot; `degrees` are the graph's in-degrees."""
        self.static_facts(sorted({edit["property"] for edit in edits}))
        self._db.execute("CREATE OR REPLACE TEMP TABLE degree (id VARCHAR, n INTEGER)")
        self._db.executemany("INSERT INTO degree VALUES (?, ?)", sorted(degrees.items()))
        self._db.execute(
            "CREATE OR REPLACE TEMP TABLE edit (case_id VARCHAR, subject VARCHAR, property VARCHAR, avoid VARCHAR[])"
        )
        self._db.executemany("INSERT INTO edit VALUES (?, ?, ?, ?)", [list(edit.values()) for edit in edits])
        return self._db.execute(
            f"""
            WITH pair AS (SELECT DISTINCT subject, property, coalesce(object, 'V' || md5(concat_ws(chr(31), datatype,
                              coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''), coalesce(precision, ''),
                              coalesce(calendar, '')))) AS object
                          FROM old_claims WHERE rank <> 'deprecated'),
                 kept AS (SELECT pair.* FROM pair JOIN degree ON degree.id = object WHERE n <= {max_df}),
                 df AS (SELECT property, object, count(*) FILTER (subject[1] = 'Q') AS n FROM kept GROUP BY ALL),
                 score AS (
                    SELECT e.case_id, b.subject, round(sum(ln({items} / df.n)), 6) AS score
                    FROM edit e JOIN kept a ON a.subject = e.subject AND a.property <> e.property
                    JOIN kept b ON b.property = a.property AND b.object = a.object
                    JOIN df ON df.property = a.property AND df.object = a.object
                    WHERE b.subject <> e.subject AND b.subject[1] = 'Q' AND NOT list_contains($edited, b.subject)
                    GROUP BY ALL)
            SELECT score.case_id, score.subject, static.object, score FROM score JOIN edit e USING (case_id)
            JOIN static ON static.subject = score.subject AND static.property = e.property
            WHERE NOT list_contains(e.avoid, static.object) AND NOT list_contains($edited, static.object)
            QUALIFY row_number() OVER (PARTITION BY score.case_id ORDER BY score DESC, score.subject) <= {k}
            ORDER BY score.case_id, score DESC, score.subject
            """,
            {"edited": edited},
        ).fetchall()
