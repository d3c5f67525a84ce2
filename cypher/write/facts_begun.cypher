// Adds facts, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $rows of facts.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (subject:Term {id: row.subject}) MATCH (object:Term {id: row.object})
CREATE (subject)-[f:FACT]->(object)
SET f = row {.property, .property_label, .statement_id, .start_time, .end_time, .point_in_time, .caption, .since, .until}
RETURN count(*) AS done
