// Finds: An item with the items around it, its own facts first and the newest first, as a picture. First, in Browser:
//   :param {item: "Q183"}
// Parameters:
// $item (id): the item in the middle
// Returns:
// path: the item, a fact, the other item
MATCH path = (item:Item {id: $item})-[f:FACT]-(other:Item)
RETURN path
ORDER BY startNode(f) <> item, f.since DESC, f.property, other.id
LIMIT 25
