// Ends versions that the snapshot no longer has, one batch.
// Parameters: $date, $step and $written, the rows of this step that are in with this batch; $rows of version_id, valid_to.
MATCH (s:Snapshot {date: $date}) SET s.step = $step, s.written = $written
WITH s UNWIND $rows AS row
MATCH ()-[c:CLAIM {version_id: row.version_id}]->()
SET c.valid_to = row.valid_to
