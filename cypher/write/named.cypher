// Adds terms that facts, claims or redirects refer to and no dump describes, one batch; existing terms are unchanged.
// Parameters: $load, $before, $after (see kgedit/graph/writing.py); $rows of terms.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MERGE (t:Term {id: row.id})
ON CREATE SET t += row {.label, .value_type, .value, .unit, .language, .precision, .calendar}
FOREACH (_ IN CASE row.kind WHEN 'item' THEN [1] ELSE [] END | SET t:Item)
FOREACH (_ IN CASE row.kind WHEN 'property' THEN [1] ELSE [] END | SET t:Property)
FOREACH (_ IN CASE row.kind WHEN 'value' THEN [1] ELSE [] END | SET t:Value)
RETURN count(*) AS done
