// Finds: Items and properties by label or alias. Exact matches come first, then the entities with most facts.
// Parameters:
// $name (text): one or more consecutive words of a label or alias
// $limit (integer, default 10): maximum number of rows
// Returns:
// id: QID or PID
// label: its label
// description: its description
// facts: number of facts with it, in all snapshots
CALL () {
  CALL db.index.fulltext.queryNodes('term_names', '"' + replace(replace($name, '\\', ' '), '"', ' ') + '"', {limit: 1000})
  YIELD node, score
  RETURN node, score
UNION ALL
  // The index has no stop words, which may be a whole name: "It", "Will".
  WITH ['a', 'an', 'and', 'are', 'as', 'at', 'be', 'but', 'by', 'for', 'if', 'in', 'into', 'is', 'it', 'no', 'not', 'of',
        'on', 'or', 'such', 'that', 'the', 'their', 'then', 'there', 'these', 'they', 'this', 'to', 'was', 'will', 'with']
    AS stop_words
  WITH stop_words WHERE all(word IN split(toLower($name), ' ') WHERE word IN stop_words)
  MATCH (node:Item|Property)
  WHERE toLower($name) IN [name IN node.label + coalesce(node.aliases, []) | toLower(name)]
  RETURN node, 1.0 AS score
}
WITH node, score, toLower($name) IN [name IN node.label + coalesce(node.aliases, []) | toLower(name)] AS exact,
     COUNT { (node)-[:FACT]-() } AS facts
RETURN node.id AS id, node.label AS label, node.description AS description, facts
ORDER BY exact DESC, facts DESC, score DESC, id
LIMIT $limit
