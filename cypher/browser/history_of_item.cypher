// Finds: Every version of an item's statements with one property, oldest first, as a picture and a table. First:
//   :param {item: "Q9617", property: "P286"}
// Parameters:
// $item (id): the item whose statements are shown
// $property (id): their property
// Returns:
// item: the item
// claim: one version; valid_from and valid_to say in which snapshots it was seen
// object: what it says
MATCH (item:Term {id: $item})-[claim:CLAIM {property: $property}]->(object:Term)
RETURN item, claim, object
ORDER BY claim.valid_from, claim.valid_to, claim.statement_id, claim.version_id
LIMIT 200
