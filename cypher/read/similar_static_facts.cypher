// Finds: Locality probes of an edit: unchanged facts of the same property about similar subjects (see similar_subjects;
// the edited property is not compared). Neither subject nor object of a probe has changed facts, and the edited subject
// has the object in neither snapshot.
// Parameters:
// $subject (id): the edited subject
// $property (id): the edited property
// $from (date): older snapshot
// $to (date): newer snapshot
// $max_df (integer, default 500): pairs of more items than this are ignored
// $k (integer, default 10): maximum number of rows
// Returns:
// similar: QID of the similar subject
// similar_label: its label
// object: QID of its only current object of the property in both snapshots
// object_label: its label
// score: similarity, as in similar_subjects
MATCH (d:Snapshot {date: $from}), (s:Term {id: $subject})-[f:FACT]->(v)
WHERE f.since <= $from < f.until AND f.property <> $property
CALL (f, v) {
  MATCH (v)<-[g:FACT {property: f.property}]-(other:Item) WHERE g.since <= $from < g.until
  WITH other LIMIT $max_df + 1
  RETURN collect(other) AS holders
}
WITH d, s, holders WHERE size(holders) <= $max_df
UNWIND holders AS other
WITH s, other, sum(toInteger(round(1e6 * log(1.0 * d.items / size(holders))))) / 1e6 AS score WHERE other <> s
MATCH (other)-[h:FACT {property: $property}]->(o) WHERE h.since <= $to AND h.until > $from
WITH s, other, score, collect(DISTINCT CASE WHEN h.since <= $from < h.until THEN o END) AS old,
     collect(DISTINCT CASE WHEN h.since <= $to < h.until THEN o END) AS new
WHERE size(old) = 1 AND old = new AND old[0]:Item
  AND NOT EXISTS { (s)-[h:FACT {property: $property}]->(o)
                   WHERE o = old[0] AND (h.since <= $from < h.until OR h.since <= $to < h.until) }
  AND NOT EXISTS {
    UNWIND [other, old[0]] AS x MATCH (x)-[h:FACT]->(y)
    WITH x, y, h.property AS p, sum(CASE WHEN h.since <= $from < h.until THEN 1 ELSE 0 END) AS before,
         sum(CASE WHEN h.since <= $to < h.until THEN 1 ELSE 0 END) AS after
    WHERE before <> after RETURN y }
RETURN other.id AS similar, other.label AS similar_label, old[0].id AS object, old[0].label AS object_label, score
ORDER BY score DESC, similar
LIMIT $k
