// Finds: What a question about some items may need: every fact between items on walks of one and two facts from them, those
// that have ended too. kgedit.graph_memory.graph_store ranks these walks by how like the question they are worded.
// Parameters:
// $subjects (ids): QIDs, such as those of memory_subjects
// $date (date): snapshot; facts that were first seen later are left out
// $limit (integer, default 20000): most facts
// Returns:
// subject: QID
// subject_label: its label
// subject_description: its description
// subject_aliases: its other names
// property: PID
// property_label: its label
// object: QID
// object_label: its label
// start_time: P580 as said
// end_time: P582 as said
// since: snapshot that first had the fact, as a day number
// until: snapshot that first lacked it; null while it holds
MATCH (s:Item) WHERE s.id IN $subjects
CALL (s) {
  RETURN s AS t
  UNION
  MATCH (s)-[f:FACT]->(t:Item) WHERE f.since <= $date
  RETURN t
}
WITH DISTINCT t
MATCH (t)-[g:FACT]->(o:Item) WHERE g.since <= $date
RETURN t.id AS subject, t.label AS subject_label, t.description AS subject_description, t.aliases AS subject_aliases,
       g.property AS property, g.property_label AS property_label, o.id AS object, o.label AS object_label,
       g.start_time AS start_time, g.end_time AS end_time, g.since AS since,
       CASE WHEN g.until <= $date THEN g.until END AS until
ORDER BY since, subject, property, object
LIMIT $limit
