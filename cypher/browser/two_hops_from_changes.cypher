// Finds: Chains of two new facts, from which two-hop questions are made, for drawing. First run in Browser:
//   :param {from: 20210104, to: 20230227}
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// path: subject, new fact, bridge, new fact, object
MATCH path = (s:Item)-[f:FACT]->(bridge:Item)-[g:FACT]->(o:Item)
WHERE $from < f.since <= $to < f.until AND $from < g.since <= $to < g.until AND s <> o
RETURN path
ORDER BY s.id, f.property, bridge.id, g.property, o.id
LIMIT 12
