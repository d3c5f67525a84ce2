// Updates the times of facts that remain current, one batch.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $first (oldest snapshot), $open (`until`
// of current facts); $rows of facts with years.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (subject:Term {id: row.subject}) MATCH (object:Term {id: row.object})
MATCH (subject)-[f:FACT {property: row.property, until: $open}]->(object)
WITH row, f, left(toString(f.since), 4) + '-' + substring(toString(f.since), 4, 2) AS since
SET f += row {.statement_id, .start_time, .end_time, .point_in_time},
    f.caption = f.property_label + coalesce(row.years, CASE f.since WHEN $first THEN '' ELSE ', seen since ' + since END)
RETURN count(*) AS done
