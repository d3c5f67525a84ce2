// Finds: An item with the items around it, newest facts first, as a picture. First, in Browser:
//   :param {item: "Q183"}
// Parameters:
// $item (id): the item in the middle
// Returns:
// path: the item, a fact, the other item
MATCH path = (:Item {id: $item})-[f:FACT]-(other:Item)
RETURN path
ORDER BY f.since DESC, f.property, other.id
LIMIT 60
