// Finds: Items and properties by label or alias. Those that bear the very name come first, then those in most facts.
// Parameters:
// $name (text): one or more words that stand together in a label or an alias
// $limit (integer, default 10): how many
// Returns:
// id: QID or PID
// label: of it
// description: of it
// facts: number of facts it is in, of any snapshot
CALL db.index.fulltext.queryNodes('term_names', '"' + replace(replace($name, '\\', ' '), '"', ' ') + '"', {limit: 1000})
YIELD node, score
WITH node, score, toLower($name) IN [name IN node.label + coalesce(node.aliases, []) | toLower(name)] AS exact,
     COUNT { (node)-[:FACT]-() } AS facts
RETURN node.id AS id, node.label AS label, node.description AS description, facts
ORDER BY exact DESC, facts DESC, score DESC, id
LIMIT $limit
