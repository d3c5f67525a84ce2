// Finds: Share of each property's subjects that have exactly one current object. This finds functional properties
// without a constraint, such as P54, P286 and P39. Reads all facts of these properties.
// Parameters:
// $date (date): snapshot
// $min_subjects (integer, default 5): properties with fewer subjects are excluded
// $properties (ids, default []): properties to examine; empty means all
// Returns:
// property: PID
// property_label: its label
// subjects: number of subjects with a current object
// functional: share of these subjects with exactly one current object
CALL () {
  UNWIND $properties AS property RETURN property
  UNION
  MATCH ()-[f:FACT]->() WHERE size($properties) = 0 RETURN DISTINCT f.property AS property
}
CALL (property) {
  MATCH (s)-[f:FACT]->() WHERE f.property = property AND f.since <= $date AND f.until > $date
  WITH s, max(f.property_label) AS label, count(*) AS objects
  RETURN max(label) AS property_label, count(*) AS subjects, sum(CASE objects WHEN 1 THEN 1 ELSE 0 END) AS single
}
WITH * WHERE subjects >= $min_subjects AND subjects > 0
RETURN property, property_label, subjects, 1.0 * single / subjects AS functional
ORDER BY property
