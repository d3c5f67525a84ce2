-- Finds: Subjects and properties with a version of a statement that exists in only one of two snapshots, whatever its
-- rank and dates; the rules of WikiFactDiff then decide which of these are changes of the world. Statements of a merged
-- item count for the item to which the newer snapshot redirects it. Same rows as cypher/read/changed_statements.cypher;
-- several buckets may give the same row if items were merged.
-- Reads: old_claims, new_claims, changed_entities, new_redirects
-- Returns: kgedit.timesteps.engines.CHANGED_STATEMENTS
WITH touched AS (
    SELECT id FROM changed_entities -- all others have the same statements in both snapshots
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
