// Adds versions of statements, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $rows of claims.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (subject:Term {id: row.subject}) MATCH (object:Term {id: row.object})
CREATE (subject)-[c:CLAIM]->(object)
SET c = row {.statement_id, .property, .rank, .restricted, .start_time, .start_precision, .end_time,
             .end_precision, .point_in_time, .point_precision, .separators, .since, .until}
RETURN count(*) AS done
