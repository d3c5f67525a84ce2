-- Finds: Pairs of new facts that chain: the first one's object is the second one's subject, and the second object is
-- not where the chain began. The same rows as cypher/read/two_hop_changes.cypher, without labels.
-- Reads: begun (subject, property, object), the results of begun_facts.sql for each bucket
-- Returns: kgedit.engines.protocol.TWO_HOPS
SELECT f.subject, f.property AS first_property, f.object AS bridge, g.property AS second_property, g.object
FROM begun f JOIN begun g ON g.subject = f.object
WHERE f.subject <> g.object ORDER BY ALL
