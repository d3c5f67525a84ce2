// Writes one batch of terms, replacing all their properties.
// Parameters: $date, $step and $written, the rows of this step that are in with this batch; $rows of term properties.
MATCH (s:Snapshot {date: $date}) SET s.step = $step, s.written = $written
WITH s UNWIND $rows AS row
MERGE (t:Term {id: row.id})
SET t = row
