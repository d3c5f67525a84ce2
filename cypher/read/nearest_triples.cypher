// Finds: Neighbours of an edit as in WikiFactDiff: unchanged facts of the same property about the entities most similar
// to the edited subject. The features of an entity are its id, each (property, item) pair and each item in its facts. A
// feature's weight, for each occurrence, is 10,000 times ln((1 + items of the snapshot) / (1 + items with the feature))
// + 1, rounded to a whole number; similarity is the cosine. A subject that is missing from the older snapshot is
// described by the newer one.
// Parameters:
// $subject (id): the edited subject
// $property (id): the edited property
// $from (date): older snapshot
// $to (date): newer snapshot
// $n (integer, default 500): number of most similar entities to examine
// $k (integer, default 10): maximum number of facts, one for each entity
// Returns:
// neighbour: QID
// neighbour_label: its label
// object: id of its object; the first of several
// object_label: its label
// cosine: cosine similarity in millionths
MATCH (d:Snapshot {date: $from}), (s:Term {id: $subject})
WITH d, s, CASE WHEN size([t IN s.presence WHERE t <= $from]) % 2 = 1 THEN $from ELSE $to END AS day
CALL (s, day) {
  MATCH (s)-[f:FACT]->(o:Item) WHERE f.since <= day < f.until
  UNWIND [f.property, null] AS property
  RETURN property, o
  UNION ALL
  RETURN null AS property, s AS o
}
WITH d, s, property, o, count(*) AS times
CALL (property, o) {
  CALL (property, o) {
    MATCH (x:Item)-[g:FACT]->(o) WHERE g.since <= $from < g.until AND (property IS NULL OR g.property = property)
    RETURN x
    UNION ALL
    WITH property, o WHERE property IS NULL AND size([t IN o.presence WHERE t <= $from]) % 2 = 1
    RETURN o AS x
  }
  WITH x, count(*) AS has
  RETURN collect({x: x, has: has}) AS holders
}
WITH d, s, times, holders, toInteger(round(10000 * (log((1.0 + d.items) / (1 + size(holders))) + 1))) AS weight
WITH d, s, sum((times * weight) ^ 2) AS own, collect({t: times * weight * weight, holders: holders}) AS features
UNWIND features AS feature
UNWIND feature.holders AS holder
WITH d, s, own, holder.x AS x, sum(feature.t * holder.has) AS dot WHERE x <> s
CALL (x) {
  MATCH (x)-[f:FACT]->(o:Item) WHERE f.since <= $from < f.until
  UNWIND [f.property, null] AS property
  RETURN property, o
  UNION ALL
  RETURN null AS property, x AS o
}
WITH d, own, x, dot, property, o, count(*) AS has
WITH d, own, property, o, collect({x: x, dot: dot, has: has}) AS havers
CALL (property, o) {
  CALL (property, o) {
    MATCH (y:Item)-[g:FACT]->(o) WHERE g.since <= $from < g.until AND (property IS NULL OR g.property = property)
    RETURN y
    UNION
    WITH property, o WHERE property IS NULL AND size([t IN o.presence WHERE t <= $from]) % 2 = 1
    RETURN o AS y
  }
  RETURN count(y) AS holders
}
WITH own, havers, toInteger(round(10000 * (log((1.0 + d.items) / (1 + holders)) + 1))) AS weight
UNWIND havers AS haver
WITH own, haver.x AS x, haver.dot AS dot, sum((haver.has * weight) ^ 2) AS norm
WITH x, toInteger(round(1000000 * dot / sqrt(own * norm))) AS cosine
ORDER BY cosine DESC, toInteger(substring(x.id, 1))
LIMIT $n
MATCH (x)-[h:FACT {property: $property}]->(o) WHERE h.since <= $to AND h.until > $from AND (o:Item OR o:Value)
WITH x, cosine, collect(DISTINCT CASE WHEN h.since <= $from < h.until THEN o.id END) AS old,
     collect(DISTINCT CASE WHEN h.since <= $to < h.until THEN o.id END) AS new
WHERE size(old) > 0 AND size(old) = size(new) AND all(id IN old WHERE id IN new)
MATCH (o:Term {id: reduce(first = old[0], id IN old | CASE WHEN id < first THEN id ELSE first END)})
RETURN x.id AS neighbour, x.label AS neighbour_label, o.id AS object, o.label AS object_label, cosine
ORDER BY cosine DESC, toInteger(substring(neighbour, 1))
LIMIT $k
