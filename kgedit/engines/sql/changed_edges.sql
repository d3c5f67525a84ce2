-- Finds: Subjects and properties whose current objects differ between two snapshots. Merged objects are compared under
-- the id that the newer snapshot redirects to. The same rows as cypher/read/changed_edges.cypher, without labels.
-- Reads: old_facts, new_facts, old_entities, new_entities, new_redirects
-- Returns: kgedit.engines.protocol.CHANGED_EDGES
WITH old AS (
    SELECT subject, property, coalesce(target, object) AS object, kind
    FROM old_facts LEFT JOIN new_redirects ON id = object
), new AS (
    SELECT subject, property, coalesce(target, object) AS object, kind
    FROM new_facts LEFT JOIN new_redirects ON id = object
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
