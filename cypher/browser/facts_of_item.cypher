// Finds: An item and its neighbouring items, its own facts first and the newest first, for drawing. First run in Browser:
//   :param {item: "Q183"}
// Parameters:
// $item (id): the central item
// Returns:
// path: the item, a fact, the other item
MATCH path = (item:Item {id: $item})-[f:FACT]-(other:Item)
RETURN path
ORDER BY startNode(f) <> item, f.since DESC, f.property, other.id
LIMIT 25
