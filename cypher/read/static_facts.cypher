// Finds: Facts that did not change: the subject has one current object of the property, an item, in both snapshots,
// and it is the same (see changed_edges). At most $limit for each property, by subject.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// $properties (ids): properties to look at
// $limit (integer, default 1000): facts for each property
// Returns:
// subject: QID
// property: PID
// object: QID
UNWIND $properties AS property
CALL (property) {
  MATCH (s:Term {kind: 'item'})-[c:CLAIM]->(o:Term)
  WHERE c.property = property AND c.valid_from <= $to AND c.valid_to > $from AND c.rank <> 'deprecated'
    AND coalesce(c.end_precision, 0) >= 0
  WITH s, c, o.kind AS kind, CASE WHEN o.redirected_at <= $to THEN o.redirect_to ELSE o.id END AS object,
       c.valid_from <= $from < c.valid_to
         AND coalesce(c.start_first, $from) <= $from AND coalesce(c.end_until, $from + 1) > $from AS in_old,
       c.valid_from <= $to < c.valid_to
         AND coalesce(c.start_first, $to) <= $to AND coalesce(c.end_until, $to + 1) > $to AS in_new
  WITH s,
       collect(DISTINCT CASE WHEN in_old THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS old,
       collect(DISTINCT CASE WHEN in_new THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS new
  WITH s,
       CASE WHEN any(x IN old WHERE x.preferred) THEN [x IN old WHERE x.preferred] ELSE old END AS old,
       CASE WHEN any(x IN new WHERE x.preferred) THEN [x IN new WHERE x.preferred] ELSE new END AS new
  WHERE size(old) = 1 AND size(new) = 1 AND old[0].id = new[0].id AND new[0].kind = 'item'
  RETURN s.id AS subject, new[0].id AS object ORDER BY subject LIMIT $limit
}
RETURN subject, property, object
ORDER BY property, subject
