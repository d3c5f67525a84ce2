-- Finds: New facts. A fact is new if it is current in the newer snapshot and was not current in the older one, its
-- subject is an item of both, and the older one has no such fact about an object that was merged into this one. Facts
-- whose object is a merged entity are excluded.
-- Parameters: $stop, properties about which no questions are asked
-- Reads: old_facts, new_facts, changed_entities, new_redirects
-- Returns: subject, property, object
WITH touched AS MATERIALIZED (
    SELECT id FROM changed_entities WHERE in_old AND in_new -- all others have the same facts in both snapshots
), fresh AS (
    SELECT subject, property, object FROM new_facts
    WHERE kind = 'item' AND subject[1] = 'Q' AND subject <> object AND NOT list_contains($stop, property)
      AND subject IN (FROM touched) AND object NOT IN (SELECT id FROM new_redirects)
), seen AS (
    SELECT subject, property, coalesce(target, object) AS object
    FROM old_facts LEFT JOIN new_redirects ON id = object WHERE subject IN (FROM touched)
)
FROM fresh ANTI JOIN seen USING (subject, property, object)
