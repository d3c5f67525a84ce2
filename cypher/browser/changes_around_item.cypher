// Finds: Changed facts around an item between two snapshots, its own facts first, for drawing. First run in Browser:
//   :param {item: "Q183", from: 20210104, to: 20230227}
// Parameters:
// $item (id): the central item
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// path: the item, a fact that began or ended after $from and up to $to, the term at its other end
MATCH path = (item:Item {id: $item})-[f:FACT]-(other)
WHERE $from < f.since <= $to OR $from < f.until <= $to
RETURN path
ORDER BY startNode(f) <> item, f.property, f.since, other.id
LIMIT 40
