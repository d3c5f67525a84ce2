// Finds: Everything that was current for one subject in a snapshot (see changed_edges), with words.
// Parameters:
// $subject (id): QID or PID
// $date (date): snapshot
// Returns:
// property: PID
// property_label: its label when the statement was first seen
// object: id, or V... for a literal
// object_label: label or value
// rank: normal or preferred
// start_time: P580 as said
// point_in_time: P585 as said
// statement_id: GUID
MATCH (s:Term {id: $subject})-[c:CLAIM]->(o:Term)
WHERE c.valid_from <= $date < c.valid_to AND c.rank <> 'deprecated' AND coalesce(c.end_precision, 0) >= 0
  AND coalesce(c.start_first, $date) <= $date AND coalesce(c.end_until, $date + 1) > $date
WITH c.property AS property, collect({claim: c, object: o}) AS found
WITH property, CASE WHEN any(x IN found WHERE x.claim.rank = 'preferred')
                    THEN [x IN found WHERE x.claim.rank = 'preferred'] ELSE found END AS best
UNWIND best AS x
RETURN property, x.claim.property_label AS property_label, x.object.id AS object, x.object.label AS object_label,
       x.claim.rank AS rank, x.claim.start_time AS start_time, x.claim.point_in_time AS point_in_time,
       x.claim.statement_id AS statement_id
ORDER BY property, object, statement_id
