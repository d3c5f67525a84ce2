-- Finds: Chains of two new facts: the object of the first is the subject of the second, and the second object is not
-- the first subject. Same rows as cypher/read/two_hop_changes.cypher, without labels.
-- Reads: begun (subject, property, object), the results of begun_facts.sql for each bucket
-- Returns: kgedit.timesteps.engines.TWO_HOPS
SELECT f.subject, f.property AS first_property, f.object AS bridge, g.property AS second_property, g.object
FROM begun f JOIN begun g ON g.subject = f.object
WHERE f.subject <> g.object ORDER BY ALL
