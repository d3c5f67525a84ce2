// Finds: Pairs of new facts that chain: the first one's object is the second one's subject, and the second object is
// not where the chain began. New is a fact about an item of both snapshots that is current at $to and was not at $from;
// merged objects are taken under the id that the newer snapshot redirects to.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// $stop (ids, default TWO_HOP_STOP_LIST): properties that make no question
// Returns:
// subject: QID of the first fact
// subject_label: its label
// first_property: PID
// first_property_label: its label
// bridge: object of the first fact, subject of the second
// bridge_label: its label
// second_property: PID
// second_property_label: its label
// object: of the second fact
// object_label: its label
MATCH (s:Item)-[f:FACT]->(b) USING INDEX SEEK f:FACT(since)
WHERE $from < f.since <= $to < f.until AND NOT f.property IN $stop
WITH s, f, CASE WHEN b:Merged THEN head([(b)-[r:REDIRECT]->(m) WHERE r.since <= $to < r.until | m] + b) ELSE b END AS b
MATCH (b:Item)-[g:FACT]->(o) WHERE $from < g.since <= $to < g.until AND NOT g.property IN $stop
WITH s, f, b, g, CASE WHEN o:Merged THEN head([(o)-[r:REDIRECT]->(m) WHERE r.since <= $to < r.until | m] + o) ELSE o END AS o
WHERE o:Item AND s <> b AND s <> o AND b <> o
  AND all(x IN [s, b] WHERE size([d IN x.presence WHERE d <= $from]) % 2 = 1 AND size([d IN x.presence WHERE d <= $to]) % 2 = 1)
  AND NOT EXISTS { (s)-[e:FACT {property: f.property}]->(x) WHERE e.since <= $from < e.until
                   AND (x = b OR EXISTS { (x)-[r:REDIRECT]->(b) WHERE r.since <= $to < r.until }) }
  AND NOT EXISTS { (b)-[e:FACT {property: g.property}]->(x) WHERE e.since <= $from < e.until
                   AND (x = o OR EXISTS { (x)-[r:REDIRECT]->(o) WHERE r.since <= $to < r.until }) }
RETURN DISTINCT s.id AS subject, s.label AS subject_label, f.property AS first_property,
       f.property_label AS first_property_label, b.id AS bridge, b.label AS bridge_label, g.property AS second_property,
       g.property_label AS second_property_label, o.id AS object, o.label AS object_label
ORDER BY subject, first_property, bridge, second_property, object
