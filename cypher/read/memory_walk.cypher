// Finds: Facts between items, current and ended, on walks of one or two facts from some items.
// kgedit.graph_memory.building ranks the walks by the similarity of their wording to the question.
// Parameters:
// $subjects (ids): QIDs, for example from memory_subjects
// $date (date): snapshot; facts first seen later are excluded
// $limit (integer, default 20000): maximum number of facts
// Returns:
// subject: QID
// subject_label: its label
// subject_description: its description
// subject_aliases: its aliases
// property: PID
// property_label: its label
// object: QID
// object_label: its label
// start_time: P580 as in Wikidata
// end_time: P582 as in Wikidata
// since: first snapshot with the fact, as a day number
// until: first snapshot without it, as a day number; null while it is current
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
