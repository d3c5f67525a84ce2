// Finds: Facts of some subjects in a snapshot, with all other items that have the same fact; similarity of subjects is
// computed from these. A fact that several of the subjects have is looked up once; for a common fact at most $max_df +
// 1 holders are read.
// Parameters:
// $subjects (ids): QIDs of the subjects
// $from (date): snapshot
// $max_df (integer, default 500): facts of more items than this are ignored
// Returns:
// property: PID
// object: id of the value
// object_label: its label
// weight: ln(items of the snapshot / items that have the fact), in whole millionths
// subjects: those of the given subjects that have it; ids, sorted
// holders: QIDs of all items that have it, sorted
MATCH (d:Snapshot {date: $from})
WITH d.items AS items
UNWIND $subjects AS id
MATCH (s:Term {id: id})-[f:FACT]->(v) WHERE f.since <= $from < f.until
WITH items, v, f.property AS property, id ORDER BY id
WITH items, v, property, collect(id) AS subjects
CALL (v, property) {
  MATCH (v)<-[g:FACT {property: property}]-(other:Item) WHERE g.since <= $from < g.until
  WITH other LIMIT $max_df + 1
  WITH other.id AS id ORDER BY id
  RETURN collect(id) AS holders
}
WITH items, v, property, subjects, holders, size(holders) AS df WHERE 1 < df <= $max_df
RETURN property, v.id AS object, v.label AS object_label, toInteger(round(1e6 * log(1.0 * items / df))) AS weight,
       subjects, holders
ORDER BY property, object
