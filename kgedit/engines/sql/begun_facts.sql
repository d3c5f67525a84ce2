-- Finds: New facts. New is a fact about an item of both snapshots that is current in the newer one and was not in the
-- older, not even about an object that was merged into this one since; facts that name a merged object are left out.
-- Parameters: $stop, the properties that make no question
-- Reads: old_facts, new_facts, old_entities, new_entities, new_redirects
-- Returns: subject, property, object
WITH touched AS MATERIALIZED (
    SELECT o.id FROM old_entities o JOIN new_entities n ON o.id = n.id
    WHERE o.digest IS DISTINCT FROM n.digest -- all others have the same facts in both snapshots
), fresh AS (
    SELECT subject, property, object FROM new_facts
    WHERE kind = 'item' AND subject[1] = 'Q' AND subject <> object AND NOT list_contains($stop, property)
      AND subject IN (FROM touched) AND object NOT IN (SELECT id FROM new_redirects)
), seen AS (
    SELECT subject, property, coalesce(target, object) AS object
    FROM old_facts LEFT JOIN new_redirects ON id = object WHERE subject IN (FROM touched)
)
FROM fresh ANTI JOIN seen USING (subject, property, object)
