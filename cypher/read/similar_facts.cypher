// Finds: For many edits at once, unchanged facts of the same property about subjects like the edited one: as
// similar_static_facts. A fact that several edited subjects share is looked up once.
// Parameters:
// $edits (maps): one {case_id, subject, property} for each edit
// $from (date): older snapshot
// $to (date): newer snapshot
// $max_df (integer, default 500): facts that more items have do not count
// $k (integer, default 10): how many for each edit
// Returns:
// case_id: of the edit
// subject: QID of the similar subject
// subject_label: its label
// property: PID of the edit
// object: QID of its one current object of the property, in both snapshots
// object_label: its label
// score: similarity, as in similar_subjects
MATCH (d:Snapshot {date: $from})
WITH d.items AS items
UNWIND range(0, size($edits) - 1) AS i
MATCH (s:Term {id: $edits[i].subject})-[f:FACT]->(v)
WHERE f.since <= $from < f.until AND f.property <> $edits[i].property
WITH items, v, f.property AS p, $edits[i].property AS property, collect(i) AS cases
WITH items, v, p, collect([property, cases]) AS asked
CALL (v, p) {
  MATCH (v)<-[g:FACT {property: p}]-(other:Item) WHERE g.since <= $from < g.until
  WITH other LIMIT $max_df + 1
  RETURN collect(other) AS holders
}
WITH items, asked, holders, size(holders) AS df WHERE 1 < df <= $max_df
WITH asked, holders, toInteger(round(1e6 * log(1.0 * items / df))) AS weight
UNWIND asked AS one
WITH one[0] AS property, one[1] AS cases, holders, weight
UNWIND holders AS other
WITH property, other, collect([weight, cases]) AS shared
MATCH (other)-[h:FACT {property: property}]->(o) WHERE h.since <= $to AND h.until > $from
WITH property, other, shared, collect(DISTINCT CASE WHEN h.since <= $from < h.until THEN o END) AS old,
     collect(DISTINCT CASE WHEN h.since <= $to < h.until THEN o END) AS new
WHERE size(old) = 1 AND old = new AND old[0]:Item
WITH property, other, old[0] AS object, shared
WHERE none(x IN [other, object] WHERE EXISTS {
    MATCH (x)-[h:FACT]->(y) WHERE $from < h.since <= $to OR $from < h.until <= $to
    WITH y, h.property AS q
    WHERE EXISTS { (x)-[a:FACT {property: q}]->(y) WHERE a.since <= $from < a.until }
       <> EXISTS { (x)-[a:FACT {property: q}]->(y) WHERE a.since <= $to < a.until }
    RETURN y })
UNWIND shared AS one
UNWIND one[1] AS i
WITH i, other, object, sum(one[0]) AS weight
WITH i, other, object, weight ORDER BY weight DESC, other.id
WITH i, collect([other, object, weight]) AS ranked
CALL (i) {
  MATCH (:Term {id: $edits[i].subject})-[h:FACT {property: $edits[i].property}]->(o)
  WHERE h.since <= $from < h.until OR h.since <= $to < h.until
  RETURN collect(o) AS own
}
WITH i, [one IN ranked WHERE one[0].id <> $edits[i].subject AND NOT one[1] IN own][..$k] AS best
UNWIND best AS one
RETURN $edits[i].case_id AS case_id, one[0].id AS subject, one[0].label AS subject_label,
       $edits[i].property AS property, one[1].id AS object, one[1].label AS object_label, one[2] / 1e6 AS score
ORDER BY property, case_id, score DESC, subject
