// Finds: Items that share facts with an item, the rarest first, for drawing: the basis of similarity. First run in Browser:
//   :param {item: "Q183", date: 20230227}
// Parameters:
// $item (id): the central item
// $date (date): snapshot
// Returns:
// shared: a fact of the item and the same fact about another one
MATCH (s:Item {id: $item})-[f:FACT]->(v) WHERE f.since <= $date < f.until
WITH s, f, v, COUNT { (v)<-[:FACT]-() } AS facts WHERE facts <= 20
MATCH shared = (s)-[f]->(v)<-[g:FACT {property: f.property}]-(other:Item) WHERE g.since <= $date < g.until
RETURN shared
ORDER BY facts, f.property, v.id, other.id
LIMIT 20
