-- Finds: Facts about some items that are current in both snapshots and, in the newer one, the subject's only value of
-- the property. At most $fan facts of each item, chosen by a hash of the ids. Same rows as cypher/read/hops_from.cypher,
-- without labels.
-- Parameters: $properties, properties that may be a hop; $fan
-- Reads: items (id), old_facts, new_facts, new_redirects
-- Returns: kgedit.timesteps.engines.HOPS
WITH one AS (
    SELECT subject, property, any_value(object) AS object FROM new_facts
    WHERE subject IN (SELECT id FROM items) AND list_contains($properties, property)
    GROUP BY subject, property HAVING count(*) = 1 AND any_value(kind) = 'item'
)
SELECT one.* FROM one SEMI JOIN old_facts USING (subject, property, object)
WHERE object <> subject AND object NOT IN (SELECT id FROM new_redirects)
QUALIFY row_number() OVER (
    PARTITION BY subject
    ORDER BY (object[2:]::BIGINT * 7919 + property[2:]::BIGINT * 104729) % 1000003, property) <= $fan
ORDER BY subject, property, object
