// Finds: What began or ended around an item between two snapshots, as a picture. First, in Browser:
//   :param {item: "Q9617", from: 20240101, to: 20240601}
// Parameters:
// $item (id): the item in the middle
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// item: the item
// claim: versions that were first or last seen after $from and up to $to
// other: the term at the other end
MATCH (item:Term {id: $item})-[claim:CLAIM]-(other:Term)
WHERE (claim.valid_from > $from AND claim.valid_from <= $to) OR (claim.valid_to > $from AND claim.valid_to <= $to)
RETURN item, claim, other
ORDER BY claim.property, claim.valid_from, claim.version_id
LIMIT 200
