// Finds: Subjects similar to a given one. Each (property, object) pair that both have in a snapshot adds its rarity,
// ln(items of the snapshot / items that have the pair).
// Parameters:
// $subject (id): QID or PID of the subject
// $date (date): snapshot
// $except (ids, default []): properties to ignore
// $max_df (integer, default 500): pairs of more items than this are ignored
// $k (integer, default 10): maximum number of rows
// Returns:
// similar: QID
// label: its label
// shared: number of shared pairs
// score: sum of their rarities, each rounded to six digits
MATCH (d:Snapshot {date: $date}), (s:Term {id: $subject})-[f:FACT]->(v)
WHERE f.since <= $date < f.until AND NOT f.property IN $except
CALL (f, v) {
  MATCH (v)<-[g:FACT {property: f.property}]-(other:Item) WHERE g.since <= $date < g.until
  WITH other LIMIT $max_df + 1
  RETURN collect(other) AS holders
}
WITH d, s, holders WHERE size(holders) <= $max_df
UNWIND holders AS other
WITH other, toInteger(round(1e6 * log(1.0 * d.items / size(holders)))) AS weight WHERE other <> s
RETURN other.id AS similar, other.label AS label, count(*) AS shared, sum(weight) / 1e6 AS score
ORDER BY score DESC, similar
LIMIT $k
