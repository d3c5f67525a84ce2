// Finds: Items and properties by label or alias. Exact matches come first, then the entities with most facts.
// Parameters:
// $name (text): one or more consecutive words of a label or alias
// $limit (integer, default 10): maximum number of rows
// Returns:
// id: QID or PID
// label: its label
// description: its description
// facts: number of facts with it, in all snapshots
CALL db.index.fulltext.queryNodes('term_names', '"' + replace(replace($name, '\\', ' '), '"', ' ') + '"', {limit: 1000})
YIELD node, score
WITH node, score, toLower($name) IN [name IN node.label + coalesce(node.aliases, []) | toLower(name)] AS exact,
     COUNT { (node)-[:FACT]-() } AS facts
RETURN node.id AS id, node.label AS label, node.description AS description, facts
ORDER BY exact DESC, facts DESC, score DESC, id
LIMIT $limit
