// Finds: An item with its items around it, as a graph for Neo4j Browser.
// Parameters:
// $item (id): QID
// $limit (integer, default 100): claims at most
// Returns:
// path: the item, a claim, the other item
MATCH path = (s:Term {id: $item})-[c:CLAIM]-(o:Term)
WHERE o.kind = 'item'
RETURN path
ORDER BY c.version_id
LIMIT $limit
