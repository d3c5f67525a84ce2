// Adds redirects from merged entities, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $rows of source, target, since, until.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (merged:Term {id: row.source}) MATCH (target:Term {id: row.target})
SET merged:Merged
CREATE (merged)-[:REDIRECT {since: row.since, until: row.until}]->(target)
RETURN count(*) AS done
