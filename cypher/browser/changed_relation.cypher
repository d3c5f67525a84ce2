// Finds: All changes of one relation between two snapshots, ended and new facts, for drawing. First run in Browser:
//   :param {property: "P6", from: 20210104, to: 20230227}
// Parameters:
// $property (id): the relation
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// path: subject, fact, object
MATCH path = (s:Item)-[f:FACT]->(o)
WHERE f.property = $property AND ($from < f.since <= $to OR $from < f.until <= $to)
RETURN path
ORDER BY s.id, f.since, o.id
LIMIT 20
