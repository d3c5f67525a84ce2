// Ends versions of statements that the snapshot no longer has, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $date, $open (end of what lasts); $rows of subject, statement_id.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (:Term {id: row.subject})-[c:CLAIM {statement_id: row.statement_id, until: $open}]->() SET c.until = $date
RETURN count(*) AS done
