// Adds versions of statements, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $rows of claims.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (subject:Term {id: row.subject}) MATCH (object:Term {id: row.object})
CREATE (subject)-[:CLAIM {statement_id: row.statement_id, property: row.property, rank: row.rank,
  restricted: row.restricted, start_time: row.start_time, start_precision: row.start_precision, end_time: row.end_time,
  end_precision: row.end_precision, point_in_time: row.point_in_time, point_precision: row.point_precision,
  separators: row.separators, since: row.since, until: row.until}]->(object)
RETURN count(*) AS done
