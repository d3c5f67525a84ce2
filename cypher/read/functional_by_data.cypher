// Finds: How functional each property is in the data: the share of subjects that have one current object (see
// changed_edges), and the share of its claims that carry a start or an end. Constraints alone miss P54, P286, P39.
// Parameters:
// $date (date): snapshot
// $min_subjects (integer, default 5): leave out properties of fewer subjects
// Returns:
// property: PID
// subjects: subjects with a current object
// functional: share of them with exactly one
// dated: share of claims in the snapshot with a start or end time
MATCH ()-[c:CLAIM]->()
WITH DISTINCT c.property AS property
CALL (property) {
  MATCH (s:Term)-[c:CLAIM]->(o:Term)
  WHERE c.property = property AND c.valid_from <= $date AND c.valid_to > $date AND c.rank <> 'deprecated'
  WITH s, collect({id: o.id, preferred: c.rank = 'preferred',
                   current: coalesce(c.start_first, $date) <= $date AND coalesce(c.end_until, $date + 1) > $date
                            AND coalesce(c.end_precision, 0) >= 0}) AS claims,
       sum(CASE WHEN c.start_precision IS NULL AND c.end_precision IS NULL THEN 0 ELSE 1 END) AS dated
  WITH dated, size(claims) AS total, [x IN claims WHERE x.current] AS current
  WITH dated, total,
       CASE WHEN any(x IN current WHERE x.preferred) THEN [x IN current WHERE x.preferred] ELSE current END AS best
  WITH dated, total, reduce(ids = [], x IN best | CASE WHEN x.id IN ids THEN ids ELSE ids + x.id END) AS objects
  RETURN sum(CASE WHEN size(objects) > 0 THEN 1 ELSE 0 END) AS subjects,
         sum(CASE WHEN size(objects) = 1 THEN 1 ELSE 0 END) AS single,
         CASE sum(total) WHEN 0 THEN 0.0 ELSE 1.0 * sum(dated) / sum(total) END AS dated
}
WITH property, subjects, single, dated
WHERE subjects >= $min_subjects AND subjects > 0
RETURN property, subjects, 1.0 * single / subjects AS functional, dated
ORDER BY property
