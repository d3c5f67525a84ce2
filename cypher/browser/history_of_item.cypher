// Finds: All that an item ever had of one property, as a picture; the years are on the edges. First, in Browser:
//   :param {item: "Q183", property: "P6"}
// Parameters:
// $item (id): the item
// $property (id): the property
// Returns:
// path: the item, a fact, its object
MATCH path = (:Item {id: $item})-[f:FACT {property: $property}]->(object)
RETURN path
ORDER BY f.since, f.until, object.id
LIMIT 40
