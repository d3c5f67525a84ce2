// Writes one batch of terms, replacing all their properties.
// Parameters: $date, $step and $batch as reached with this batch; $rows of term properties.
MATCH (s:Snapshot {date: $date}) SET s.step = $step, s.batch = $batch
WITH s UNWIND $rows AS row
MERGE (t:Term {id: row.id})
SET t = row
