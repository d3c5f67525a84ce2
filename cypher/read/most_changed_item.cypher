// Finds: The item with most facts that began or ended between two snapshots, a starting point for looking at a graph.
// Items with more than $most facts are excluded, because a picture of them is unreadable. In a large window only some
// of the changes are counted.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// $most (integer): maximum number of facts
// Returns:
// id: QID
// label: its label
// changes: number of its facts that began or ended
CALL () {
  MATCH (i:Item)-[f:FACT]->() USING INDEX SEEK f:FACT(since) WHERE $from < f.since <= $to RETURN i, f LIMIT 100000
  UNION
  MATCH (i:Item)-[f:FACT]->() USING INDEX SEEK f:FACT(until) WHERE $from < f.until <= $to RETURN i, f LIMIT 100000
}
WITH i, count(*) AS changes
WHERE changes <= $most AND i.label IS NOT NULL
RETURN i.id AS id, i.label AS label, changes
ORDER BY changes DESC, i.id
LIMIT 1
