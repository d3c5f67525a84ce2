// Finds: Chains of two new facts: the object of the first is the subject of the second, and the second object is not
// the first subject. A fact is new if it is current at $to and was not current at $from, its subject is an item of both
// snapshots, and the older snapshot has no such fact about an object that was merged into this one. Facts whose object
// is a merged entity are excluded.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// $stop (ids, default TWO_HOP_STOP_LIST): properties about which no questions are asked
// Returns:
// subject: QID of the first fact
// subject_label: its label
// first_property: PID
// first_property_label: its label
// bridge: object of the first fact, subject of the second
// bridge_label: its label
// second_property: PID
// second_property_label: its label
// object: object of the second fact
// object_label: its label
MATCH (s)-[f:FACT]->(b)-[g:FACT]->(o)
USING INDEX SEEK f:FACT(since) USING INDEX SEEK g:FACT(since) USING JOIN ON b
WHERE $from < f.since <= $to AND $from < g.since <= $to
WITH s, f, b, g, o, f.property AS p, g.property AS q
WHERE f.until > $to AND g.until > $to AND NOT p IN $stop AND NOT q IN $stop
  AND s:Item AND b:Item AND o:Item AND s <> b AND s <> o AND b <> o
  AND all(x IN [s, b] WHERE size([d IN x.presence WHERE d <= $from]) % 2 = 1 AND size([d IN x.presence WHERE d <= $to]) % 2 = 1)
  AND NOT (o:Merged AND EXISTS { (o)-[r:REDIRECT]->() WHERE r.since <= $to < r.until })
  AND NOT EXISTS { (s)-[e:FACT {property: p}]->(x) WHERE e.since <= $from < e.until
                   AND (x = b OR x:Merged AND EXISTS { (x)-[r:REDIRECT]->(b) WHERE r.since <= $to < r.until }) }
  AND NOT EXISTS { (b)-[e:FACT {property: q}]->(x) WHERE e.since <= $from < e.until
                   AND (x = o OR x:Merged AND EXISTS { (x)-[r:REDIRECT]->(o) WHERE r.since <= $to < r.until }) }
RETURN s.id AS subject, s.label AS subject_label, p AS first_property, f.property_label AS first_property_label,
       b.id AS bridge, b.label AS bridge_label, q AS second_property, g.property_label AS second_property_label,
       o.id AS object, o.label AS object_label
ORDER BY subject, first_property, bridge, second_property, object
