// Finds: All versions of a subject's statements of one property, oldest first. Reads the evidence layer.
// Parameters:
// $subject (id): QID or PID
// $property (id): PID
// Returns:
// statement_id: GUID
// since: first snapshot with the version
// until: first later snapshot without it; 99991231 while it is present
// object: id, or V... for a literal
// object_label: label or value
// rank: normal, preferred or deprecated
// start_time: P580 as in Wikidata
// end_time: P582 as in Wikidata
MATCH (s:Term {id: $subject})-[c:CLAIM {property: $property}]->(o)
RETURN c.statement_id AS statement_id, c.since AS since, c.until AS until, o.id AS object, o.label AS object_label,
       c.rank AS rank, c.start_time AS start_time, c.end_time AS end_time
ORDER BY statement_id, since
