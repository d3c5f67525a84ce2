// Finds: Facts whose object is one of some items, that are current in both snapshots and, in the newer one, the
// subject's only value of the property: the earlier hops of a chain. For each item one subject of each property, and at
// most $fan of these, chosen by a hash of the ids. Items that are the object of more than $max_df facts, or merged, have
// none.
// Parameters:
// $items (ids): objects of the facts
// $from (date): older snapshot
// $to (date): newer snapshot
// $properties (ids): properties that may be a hop
// $fan (integer, default 3): maximum number of facts of each item
// $max_df (integer, default 10000): items that are the object of more facts in the newer snapshot are excluded
// Returns:
// subject: QID
// subject_label: its label
// property: PID
// property_label: its label
// object: QID
// object_label: its label
UNWIND $items AS id
MATCH (o:Term {id: id})
CALL (o) {
  MATCH (o)<-[g:FACT]-() WHERE g.since <= $to < g.until
  WITH g LIMIT $max_df + 1
  RETURN count(g) AS df
}
WITH o WHERE df <= $max_df AND NOT (o:Merged AND EXISTS { (o)-[r:REDIRECT]->() WHERE r.since <= $to < r.until })
CALL (o) {
  MATCH (o)<-[f:FACT]-(s:Item) WHERE f.property IN $properties AND f.since <= $to AND f.until > $from AND s <> o
  WITH s, f.property AS p, max(f.property_label) AS label,
       collect(f.since <= $from < f.until) AS old, collect(f.since <= $to < f.until) AS new
  WHERE true IN old AND true IN new
    AND COUNT { (s)-[g:FACT {property: p}]->() WHERE g.since <= $to < g.until } = 1
  WITH s, p, label, (toInteger(substring(s.id, 1)) * 7919 + toInteger(substring(p, 1)) * 104729) % 1000003 AS drawn
  ORDER BY drawn, s.id
  WITH p, label, collect({subject: s, drawn: drawn})[0] AS first
  RETURN p, label, first.subject AS s ORDER BY first.drawn, p LIMIT $fan
}
RETURN s.id AS subject, s.label AS subject_label, p AS property, label AS property_label, o.id AS object,
       o.label AS object_label
ORDER BY subject, property, object
