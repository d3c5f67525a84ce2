// Finds: The item with most facts that began or ended between two snapshots, as the first picture of a graph. Items with
// more than $most are left out, because a picture of them is unreadable; a large window is only counted in part.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// $most (integer): maximum number of facts
// Returns:
// id: QID
// label: its label
// changes: number of facts about it that began or ended
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
