-- Finds: Subjects and properties whose current objects differ between two snapshots. Merged objects are compared by the
-- id to which the newer snapshot redirects them. Same rows as cypher/read/changed_edges.cypher, without labels; the rows
-- of a bucket's subjects follow from that bucket and all redirects.
-- Reads: old_facts, new_facts, changed_entities, new_redirects
-- Returns: kgedit.timesteps.engines.CHANGED_EDGES
WITH touched AS MATERIALIZED (
    SELECT id FROM changed_entities -- all others have the same facts in both snapshots
), old AS MATERIALIZED (
    SELECT subject, property, coalesce(target, object) AS object, kind
    FROM old_facts LEFT JOIN new_redirects ON id = object WHERE subject IN (FROM touched)
), new AS MATERIALIZED (
    SELECT subject, property, coalesce(target, object) AS object, kind
    FROM new_facts LEFT JOIN new_redirects ON id = object WHERE subject IN (FROM touched)
), changed AS (
    SELECT subject, property FROM old ANTI JOIN new USING (subject, property, object)
    UNION
    SELECT subject, property FROM new ANTI JOIN old USING (subject, property, object)
), object AS (
    SELECT *, true AS is_old FROM old SEMI JOIN changed USING (subject, property)
    UNION ALL
    SELECT *, false FROM new SEMI JOIN changed USING (subject, property)
)
SELECT subject, property,
       coalesce(list(DISTINCT object ORDER BY object) FILTER (is_old), []) AS old_objects,
       coalesce(list(DISTINCT object ORDER BY object) FILTER (NOT is_old), []) AS new_objects,
       bool_and(kind = 'item') AS item_valued,
       subject IN (SELECT id FROM old_entities) AS subject_in_old,
       subject IN (SELECT id FROM new_entities) AS subject_in_new
FROM object GROUP BY subject, property ORDER BY subject, property
