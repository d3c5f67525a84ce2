// Finds: Facts about some items that are current in both snapshots and, in the newer one, the subject's only value of
// the property: the next hops of a chain. At most $fan facts of each item, chosen by a hash of the ids.
// Parameters:
// $items (ids): subjects of the facts
// $from (date): older snapshot
// $to (date): newer snapshot
// $properties (ids): properties that may be a hop
// $fan (integer, default 3): maximum number of facts of each item
// Returns:
// subject: QID
// subject_label: its label
// property: PID
// property_label: its label
// object: QID
// object_label: its label
UNWIND $items AS id
MATCH (s:Term {id: id})
CALL (s) {
  MATCH (s)-[f:FACT]->(o) WHERE f.property IN $properties AND f.since <= $to AND f.until > $from
  WITH s, f.property AS p, max(f.property_label) AS label,
       collect(DISTINCT CASE WHEN f.since <= $from < f.until THEN o END) AS old,
       collect(DISTINCT CASE WHEN f.since <= $to < f.until THEN o END) AS new
  WITH s, p, label, old, new[0] AS o WHERE size(new) = 1 AND o IN old AND o:Item AND o <> s
    AND NOT (o:Merged AND EXISTS { (o)-[r:REDIRECT]->() WHERE r.since <= $to < r.until })
  RETURN p, label, o
  ORDER BY (toInteger(substring(o.id, 1)) * 7919 + toInteger(substring(p, 1)) * 104729) % 1000003, p LIMIT $fan
}
RETURN s.id AS subject, s.label AS subject_label, p AS property, label AS property_label, o.id AS object,
       o.label AS object_label
ORDER BY subject, property, object
