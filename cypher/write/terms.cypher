// Writes one batch of terms with labels, descriptions and aliases, replacing those of existing terms.
// Parameters: $load, $before, $after (see start_batch in kgedit/graph/writing.py); $rows of terms, where `presence`
// holds the dates to add.
MATCH (l:Load {id: $load, written: $before}) SET l.written = $after
WITH l UNWIND $rows AS row
MERGE (t:Term {id: row.id})
SET t += row {.label, .description, .aliases, .datatype, .value_type, .value, .unit, .language, .precision, .calendar}
SET t.presence = CASE WHEN row.presence IS NULL THEN t.presence ELSE coalesce(t.presence, []) + row.presence END
FOREACH (_ IN CASE row.kind WHEN 'item' THEN [1] ELSE [] END | SET t:Item)
FOREACH (_ IN CASE row.kind WHEN 'property' THEN [1] ELSE [] END | SET t:Property)
FOREACH (_ IN CASE row.kind WHEN 'value' THEN [1] ELSE [] END | SET t:Value)
RETURN count(*) AS done
