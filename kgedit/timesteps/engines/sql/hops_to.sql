-- Finds: Facts whose object is one of some items, that are current in both snapshots and, in the newer one, the
-- subject's only value of the property. For each item one subject of each property, and at most $fan of these, chosen by
-- a hash of the ids. Items that are the object of more than $max_df facts, or merged, have none. Same rows as
-- cypher/read/hops_to.cypher, without labels.
-- Parameters: $properties, properties that may be a hop; $fan; $max_df
-- Reads: items (id), old_facts, new_facts, new_redirects
-- Returns: kgedit.timesteps.engines.HOPS
WITH named AS MATERIALIZED (
    SELECT subject, property, object FROM new_facts WHERE object IN (SELECT id FROM items)
        AND object NOT IN (SELECT id FROM new_redirects)
), kept AS (
    SELECT object FROM named GROUP BY object HAVING count(*) <= $max_df
), fact AS MATERIALIZED (
    FROM named SEMI JOIN kept USING (object) SEMI JOIN old_facts USING (subject, property, object)
    WHERE subject[1] = 'Q' AND subject <> object AND list_contains($properties, property)
), one AS (
    SELECT subject, property FROM new_facts SEMI JOIN fact USING (subject, property)
    GROUP BY subject, property HAVING count(*) = 1
), drawn AS (
    SELECT *, (subject[2:]::BIGINT * 7919 + property[2:]::BIGINT * 104729) % 1000003 AS drawn
    FROM fact SEMI JOIN one USING (subject, property)
    QUALIFY row_number() OVER (PARTITION BY object, property ORDER BY drawn, subject) = 1
)
SELECT subject, property, object FROM drawn
QUALIFY row_number() OVER (PARTITION BY object ORDER BY drawn, property) <= $fan
ORDER BY subject, property, object
