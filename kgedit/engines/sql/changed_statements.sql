-- Finds: Subjects and properties with a version of a statement that only one of two snapshots has; statements of a
-- merged item count as those of the item that the newer snapshot redirects to. Any rank, ended or not: the rules of
-- WikiFactDiff decide what of it is a change of the world. The same rows as cypher/read/changed_statements.cypher; those
-- of several buckets may repeat one another if items were merged.
-- Reads: old_claims, new_claims, old_entities, new_entities, new_redirects
-- Returns: kgedit.engines.protocol.CHANGED_STATEMENTS
WITH touched AS (
    SELECT coalesce(o.id, n.id) AS id FROM old_entities o FULL JOIN new_entities n ON o.id = n.id
    WHERE o.digest IS DISTINCT FROM n.digest -- all others have the same statements in both snapshots
), old AS (
    FROM old_claims WHERE snak = 'value' AND subject IN (FROM touched)
), new AS (
    FROM new_claims WHERE snak = 'value' AND subject IN (FROM touched)
), changed AS (
    SELECT subject, property FROM old ANTI JOIN new USING (statement_id, version, restricted)
    UNION
    SELECT subject, property FROM new ANTI JOIN old USING (statement_id, version, restricted)
)
SELECT DISTINCT coalesce(target, subject) AS subject, property FROM changed LEFT JOIN new_redirects ON id = subject
WHERE coalesce(target, subject)[1] = 'Q' ORDER BY subject, property
