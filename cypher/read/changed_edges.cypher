// Finds: Subjects and properties whose current objects differ between two snapshots. Merged objects are compared by the
// id to which the newer snapshot redirects them. The index hints make the cost proportional to the number of changes.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// subject: QID or PID
// subject_label: its label
// property: PID
// property_label: its label
// old_objects: current objects at $from; ids, or V... for literals; sorted
// old_labels: their labels, in the same order
// new_objects: current objects at $to; sorted
// new_labels: their labels, in the same order
// item_valued: whether all objects of both snapshots are items
// subject_in_old: whether the older snapshot contains the subject
// subject_in_new: whether the newer snapshot contains the subject
CALL () {
  MATCH (s:Term)-[f:FACT]->() USING INDEX SEEK f:FACT(since) WHERE $from < f.since <= $to RETURN s, f.property AS property
  UNION
  MATCH (s:Term)-[f:FACT]->() USING INDEX SEEK f:FACT(until) WHERE $from < f.until <= $to RETURN s, f.property AS property
}
WITH s, collect(property) AS properties
MATCH (s)-[f:FACT]->(o) WHERE f.property IN properties AND f.since <= $to AND f.until > $from
WITH s, f, CASE WHEN o:Merged THEN head([(o)-[r:REDIRECT]->(m) WHERE r.since <= $to < r.until | m] + o) ELSE o END AS o
ORDER BY o.id
WITH s, f.property AS property, max(f.property_label) AS property_label,
     collect(DISTINCT CASE WHEN f.since <= $from < f.until THEN o END) AS old,
     collect(DISTINCT CASE WHEN f.since <= $to < f.until THEN o END) AS new
WHERE old <> new
RETURN s.id AS subject, s.label AS subject_label, property, property_label,
       [o IN old | o.id] AS old_objects, [o IN old | coalesce(o.label, o.id)] AS old_labels,
       [o IN new | o.id] AS new_objects, [o IN new | coalesce(o.label, o.id)] AS new_labels,
       all(o IN old + new WHERE o:Item) AS item_valued,
       size([d IN s.presence WHERE d <= $from]) % 2 = 1 AS subject_in_old,
       size([d IN s.presence WHERE d <= $to]) % 2 = 1 AS subject_in_new
ORDER BY subject, property
