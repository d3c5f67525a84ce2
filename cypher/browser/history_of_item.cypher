// Finds: All objects of one property that an item has had, for drawing; the edges show the years. First run in Browser:
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
