-- Finds: Pairs of new facts that chain: the first one's object is the second one's subject, and the second object is
-- not where the chain began. New is a fact about an item of both snapshots that is current in the newer one and was not
-- in the older, not even about an object that was merged into this one since; facts that name a merged object make no
-- pair. The same rows as cypher/read/two_hop_changes.cypher, without labels.
-- Parameters: $stop, the properties that make no question
-- Reads: old_facts, new_facts, old_entities, new_entities, new_redirects
-- Returns: kgedit.engines.protocol.TWO_HOPS
WITH fresh AS (
    SELECT subject, property, object FROM new_facts
    WHERE kind = 'item' AND subject[1] = 'Q' AND subject <> object AND NOT list_contains($stop, property)
      AND subject IN (SELECT id FROM old_entities) AND subject IN (SELECT id FROM new_entities)
      AND object NOT IN (SELECT id FROM new_redirects)
), seen AS (
    SELECT subject, property, coalesce(target, object) AS object
    FROM old_facts LEFT JOIN new_redirects ON id = object
), begun AS (
    FROM fresh ANTI JOIN seen USING (subject, property, object)
)
SELECT f.subject, f.property AS first_property, f.object AS bridge, g.property AS second_property, g.object
FROM begun f JOIN begun g ON g.subject = f.object
WHERE f.subject <> g.object ORDER BY ALL
