// Finds: Every version of a subject's statements of one property, oldest first. Reads the evidence layer.
// Parameters:
// $subject (id): QID or PID
// $property (id): PID
// Returns:
// statement_id: GUID
// since: first snapshot that has the version
// until: first later snapshot that has it no more; 99991231 while it lasts
// object: id, or V... for a literal
// object_label: label or value
// rank: normal, preferred or deprecated
// start_time: P580 as said
// end_time: P582 as said
MATCH (s:Term {id: $subject})-[c:CLAIM {property: $property}]->(o)
RETURN c.statement_id AS statement_id, c.since AS since, c.until AS until, o.id AS object, o.label AS object_label,
       c.rank AS rank, c.start_time AS start_time, c.end_time AS end_time
ORDER BY statement_id, since
