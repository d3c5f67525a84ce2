// Finds: Unchanged facts: the subject is an item and has, in both snapshots, one object of the property, the same item.
// At most $limit facts of each property, ordered by subject. Reads all facts of these properties.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// $properties (ids): properties to examine
// $limit (integer, default 1000): maximum number of facts of each property
// Returns:
// subject: QID
// subject_label: its label
// property: PID
// object: QID
// object_label: its label
// untouched: whether neither subject nor object has a fact that is current in only one of the snapshots
UNWIND $properties AS property
CALL (property) {
  MATCH (s:Item)-[f:FACT]->(o) WHERE f.property = property AND f.since <= $to AND f.until > $from
  WITH s, collect(DISTINCT CASE WHEN f.since <= $from < f.until THEN o END) AS old,
       collect(DISTINCT CASE WHEN f.since <= $to < f.until THEN o END) AS new
  WHERE size(old) = 1 AND old = new AND old[0]:Item
  RETURN s, old[0] AS o ORDER BY s.id LIMIT $limit
}
RETURN s.id AS subject, s.label AS subject_label, property, o.id AS object, o.label AS object_label,
       none(x IN [s, o] WHERE EXISTS {
         MATCH (x)-[h:FACT]->(y) WHERE $from < h.since <= $to OR $from < h.until <= $to
         WITH y, h.property AS q
         WHERE EXISTS { (x)-[a:FACT {property: q}]->(y) WHERE a.since <= $from < a.until }
            <> EXISTS { (x)-[a:FACT {property: q}]->(y) WHERE a.since <= $to < a.until }
         RETURN y }) AS untouched
ORDER BY property, subject
