// Records that entities are missing from the snapshot, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $date; $rows of id.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (t:Term {id: row.id}) SET t.presence = t.presence + $date
RETURN count(*) AS done
