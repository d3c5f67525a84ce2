// Ends redirects that are missing from the snapshot, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $date, $open (`until` of current redirects); $rows of source, target.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (:Term {id: row.source})-[r:REDIRECT {until: $open}]->(:Term {id: row.target}) SET r.until = $date
RETURN count(*) AS done
