// Ends facts that are no longer current, one batch. If `years` is null, only the edge records when it was first seen.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $date and its $month as text, $open
// (`until` of current facts); $rows of facts with years.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MATCH (subject:Term {id: row.subject}) MATCH (object:Term {id: row.object})
MATCH (subject)-[f:FACT {property: row.property, until: $open}]->(object)
WITH row, f, left(toString(f.since), 4) + '-' + substring(toString(f.since), 4, 2) AS since
SET f.end_time = row.end_time, f.until = $date,
    f.caption = f.property_label + coalesce(row.years, ', seen ' + since + ' to ' + $month)
RETURN count(*) AS done
