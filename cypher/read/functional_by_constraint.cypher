// Finds: Properties with a single-value or single-best-value constraint in Wikidata, and the constraint's separators. A
// property is temporally functional (WikiFactDiff, appendix A) if a separator is a time. Reads the evidence layer.
// Parameters:
// $date (date): snapshot
// Returns:
// property: PID
// property_label: its label
// constraint: single value or single best value
// separators: PIDs whose values may distinguish several statements, sorted
// temporal: whether start time, end time or point in time is among them
MATCH (p:Property)-[c:CLAIM {property: 'P2302'}]->(k:Item)
WHERE k.id IN ['Q19474404', 'Q52060874'] AND c.rank <> 'deprecated' AND c.since <= $date < c.until
WITH p.id AS property, p.label AS property_label,
     CASE k.id WHEN 'Q19474404' THEN 'single value' ELSE 'single best value' END AS constraint,
     coalesce(c.separators, []) AS separators
RETURN DISTINCT property, property_label, constraint, separators,
       any(x IN separators WHERE x IN ['P580', 'P582', 'P585']) AS temporal
ORDER BY property, constraint, separators
