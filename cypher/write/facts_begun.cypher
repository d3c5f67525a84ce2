// Adds facts, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $rows of facts.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (subject:Term {id: row.subject}) MATCH (object:Term {id: row.object})
CREATE (subject)-[:FACT {property: row.property, property_label: row.property_label, statement_id: row.statement_id,
  start_time: row.start_time, end_time: row.end_time, point_in_time: row.point_in_time, caption: row.caption,
  since: row.since, until: row.until}]->(object)
RETURN count(*) AS done
