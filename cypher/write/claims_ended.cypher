// Ends versions of statements that are missing from the snapshot, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $date, $open (`until` of current versions); $rows of subject, statement_id.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (:Term {id: row.subject})-[c:CLAIM {statement_id: row.statement_id, until: $open}]->() SET c.until = $date
RETURN count(*) AS done
