// Finds: What began or ended around an item between two snapshots, its own facts first, as a picture. First, in Browser:
//   :param {item: "Q183", from: 20210104, to: 20230227}
// Parameters:
// $item (id): the item in the middle
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// path: the item, a fact that was first seen or seen no more after $from and up to $to, the term at its other end
MATCH path = (item:Item {id: $item})-[f:FACT]-(other)
WHERE $from < f.since <= $to OR $from < f.until <= $to
RETURN path
ORDER BY startNode(f) <> item, f.property, f.since, other.id
LIMIT 40
