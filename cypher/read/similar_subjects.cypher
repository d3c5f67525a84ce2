// Finds: Subjects like a given one, by the rarity of the (property, object) pairs that they share in a snapshot:
// each shared pair weighs ln(items / holders of the pair). Pairs of $except and pairs on hubs are left out.
// Parameters:
// $subject (id): whose likes are sought
// $date (date): snapshot
// $except (ids, default []): properties that do not count
// $max_df (integer, default 500): objects with more incoming claims are hubs
// $k (integer, default 10): how many
// Returns:
// similar: QID
// label: of it
// shared: number of shared pairs
// score: sum of their weights, rounded to six digits
MATCH (t:Term {kind: 'item'})
WITH count(t) AS items
MATCH (s:Term {id: $subject})-[f:CLAIM]->(v:Term)
WHERE f.valid_from <= $date < f.valid_to AND f.rank <> 'deprecated' AND NOT f.property IN $except
  AND COUNT { (v)<-[:CLAIM]-() } <= $max_df
WITH DISTINCT items, s, f.property AS property, v
MATCH (v)<-[g:CLAIM {property: property}]-(other:Term)
WHERE g.valid_from <= $date < g.valid_to AND g.rank <> 'deprecated' AND other <> s AND other.kind = 'item'
WITH items, property, v, collect(DISTINCT other) AS others
WITH log(1.0 * items / (size(others) + 1)) AS weight, others
UNWIND others AS other
RETURN other.id AS similar, other.label AS label, count(*) AS shared, round(sum(weight), 6) AS score
ORDER BY score DESC, similar
LIMIT $k
