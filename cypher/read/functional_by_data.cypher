// Finds: How functional each property is in the data: the share of its subjects that have one current object.
// Constraints alone miss P54, P286, P39. Looks at all facts of these properties.
// Parameters:
// $date (date): snapshot
// $min_subjects (integer, default 5): leave out properties of fewer subjects
// $properties (ids, default []): properties to look at; none for all
// Returns:
// property: PID
// property_label: its label
// subjects: subjects with a current object
// functional: share of them with exactly one
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
