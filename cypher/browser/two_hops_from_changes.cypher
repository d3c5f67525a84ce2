// Finds: Where the new facts of a snapshot lead to: changed edges and what follows from their objects. First:
//   :param {from: 20240101, to: 20240601}
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// subject: subject of a new fact
// new: the new fact
// bridge: its object, an item
// next: a fact about that item at $to
// end: the object of that fact, an item
MATCH (subject:Term)-[new:CLAIM]->(bridge:Term)
WHERE new.valid_from > $from AND new.valid_from <= $to AND new.valid_to > $to AND bridge.kind = 'item'
WITH subject, new, bridge
ORDER BY new.version_id
LIMIT 25
MATCH (bridge)-[next:CLAIM]->(end:Term)
WHERE next.valid_from <= $to AND next.valid_to > $to AND end.kind = 'item' AND end.id <> subject.id
RETURN subject, new, bridge, next, end
ORDER BY new.version_id, next.version_id
LIMIT 100
