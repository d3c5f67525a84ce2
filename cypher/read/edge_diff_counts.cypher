// Finds: Number of facts of each property that began or ended between two snapshots, including those first seen in a
// snapshot between them.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// property: PID
// property_label: its label
// begun: number of facts that are current at $to and were not at $from
// ended: number of facts that were current at $from and are not at $to
CALL () {
  MATCH (s)-[f:FACT]->(o) USING INDEX SEEK f:FACT(since) WHERE $from < f.since <= $to < f.until RETURN s, f, o, 1 AS begun
  UNION
  MATCH (s)-[f:FACT]->(o) USING INDEX SEEK f:FACT(until) WHERE f.since <= $from < f.until <= $to RETURN s, f, o, 0 AS begun
}
WITH s, f.property AS property, o, max(f.property_label) AS label, sum(begun) AS begun, count(*) - sum(begun) AS ended
WHERE begun <> ended // a fact that ended and began again in between has not changed
RETURN property, max(label) AS property_label, sum(begun) AS begun, sum(ended) AS ended
ORDER BY property
