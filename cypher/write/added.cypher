// Adds versions that the snapshot is the first to have, one batch.
// Parameters: $date, $step and $written, the rows of this step that are in with this batch; $rows of subject, object, claim properties.
MATCH (s:Snapshot {date: $date}) SET s.step = $step, s.written = $written
WITH s UNWIND $rows AS row
MATCH (subject:Term {id: row.subject})
MATCH (object:Term {id: row.object})
MERGE (subject)-[c:CLAIM {version_id: row.claim.version_id}]->(object)
SET c = row.claim
