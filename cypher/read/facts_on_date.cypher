// Finds: Current facts of one subject in a snapshot. Times are the latest known values.
// Parameters:
// $subject (id): QID or PID
// $date (date): snapshot
// Returns:
// property: PID
// property_label: its label
// object: id, or V... for a literal
// object_label: label or value
// start_time: P580 as in Wikidata
// point_in_time: P585 as in Wikidata
// statement_id: GUID
MATCH (s:Term {id: $subject})-[f:FACT]->(o) WHERE f.since <= $date < f.until
RETURN f.property AS property, f.property_label AS property_label, o.id AS object, o.label AS object_label,
       f.start_time AS start_time, f.point_in_time AS point_in_time, f.statement_id AS statement_id
ORDER BY property, object
