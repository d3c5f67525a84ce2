// Finds: Subjects and properties with a version of a statement that exists in only one of two snapshots, whatever its
// rank and dates; the rules of WikiFactDiff then decide which of these are changes of the world. Statements of a merged
// item count for the item to which the newer snapshot redirects it. A version also counts if a snapshot between the two
// lacks it. Reads the evidence layer. The index hints make the cost proportional to the number of changes.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// subject: QID
// subject_label: its label
// property: PID
// statement_ids: GUIDs of the changed statements, sorted
CALL () {
  MATCH (s:Term)-[c:CLAIM]->() USING INDEX SEEK c:CLAIM(since) WHERE $from < c.since <= $to RETURN s, c
  UNION
  MATCH (s:Term)-[c:CLAIM]->() USING INDEX SEEK c:CLAIM(until) WHERE $from < c.until <= $to RETURN s, c
}
WITH s, c.property AS property, c.statement_id AS statement_id WHERE (c.since <= $from) <> (c.until > $to)
WITH CASE WHEN s:Merged THEN head([(s)-[r:REDIRECT]->(m) WHERE r.since <= $to < r.until | m] + s) ELSE s END AS s,
     property, statement_id ORDER BY statement_id
WITH s, property, statement_id WHERE s:Item
RETURN s.id AS subject, s.label AS subject_label, property, collect(DISTINCT statement_id) AS statement_ids
ORDER BY subject, property
