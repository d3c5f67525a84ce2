// Finds: Pairs of changed facts that chain: the first one's new object is the second one's subject, by id, and the
// second object is not where the chain began. A changed fact is a new current item of a subject and property that
// exist in both snapshots (see changed_edges).
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// $stop (ids, default ["P31", "P123", "P98", "P1151", "P5008", "P6104"]): properties that make no question
// Returns:
// subject: of the first fact
// first_property: PID
// bridge: object of the first fact, subject of the second
// second_property: PID
// object: of the second fact
CALL () {
  MATCH (s:Term)-[c:CLAIM]->() USING INDEX SEEK c:CLAIM(valid_from) WHERE c.valid_from > $from AND c.valid_from <= $to
  RETURN s, c.property AS property
  UNION
  MATCH (s:Term)-[c:CLAIM]->() USING INDEX SEEK c:CLAIM(valid_to) WHERE c.valid_to > $from AND c.valid_to <= $to
  RETURN s, c.property AS property
  UNION
  MATCH (s:Term)-[c:CLAIM]->() USING INDEX SEEK c:CLAIM(end_until) WHERE c.end_until > $from AND c.end_until <= $to
  RETURN s, c.property AS property
  UNION
  MATCH (s:Term)-[c:CLAIM]->() USING INDEX SEEK c:CLAIM(start_first) WHERE c.start_first > $from AND c.start_first <= $to
  RETURN s, c.property AS property
}
WITH s, property
WHERE s.kind = 'item' AND NOT property IN $stop
  AND any(i IN range(0, size(coalesce(s.presence, [])) - 1, 2) WHERE s.presence[i] <= $from < s.presence[i + 1])
  AND any(i IN range(0, size(coalesce(s.presence, [])) - 1, 2) WHERE s.presence[i] <= $to < s.presence[i + 1])
MATCH (s)-[c:CLAIM {property: property}]->(o:Term)
WHERE c.rank <> 'deprecated' AND coalesce(c.end_precision, 0) >= 0
WITH s, property, c, o.kind AS kind, CASE WHEN o.redirected_at <= $to THEN o.redirect_to ELSE o.id END AS object,
     c.valid_from <= $from < c.valid_to
       AND coalesce(c.start_first, $from) <= $from AND coalesce(c.end_until, $from + 1) > $from AS in_old,
     c.valid_from <= $to < c.valid_to
       AND coalesce(c.start_first, $to) <= $to AND coalesce(c.end_until, $to + 1) > $to AS in_new
WITH s, property,
     collect(CASE WHEN in_old THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS old,
     collect(CASE WHEN in_new THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS new
WITH s, property,
     CASE WHEN any(x IN old WHERE x.preferred) THEN [x IN old WHERE x.preferred] ELSE old END AS old,
     CASE WHEN any(x IN new WHERE x.preferred) THEN [x IN new WHERE x.preferred] ELSE new END AS new
UNWIND [x IN new WHERE x.kind = 'item' AND none(y IN old WHERE y.id = x.id) | x.id] AS bridge
WITH bridge, collect(DISTINCT {subject: s.id, property: property}) AS first_hops
MATCH (b:Term {id: bridge})
WHERE any(i IN range(0, size(coalesce(b.presence, [])) - 1, 2) WHERE b.presence[i] <= $from < b.presence[i + 1])
  AND any(i IN range(0, size(coalesce(b.presence, [])) - 1, 2) WHERE b.presence[i] <= $to < b.presence[i + 1])
CALL (b) {
  MATCH (b)-[t:CLAIM]->()
  WHERE (t.valid_from > $from AND t.valid_from <= $to OR t.valid_to > $from AND t.valid_to <= $to
         OR t.end_until > $from AND t.end_until <= $to OR t.start_first > $from AND t.start_first <= $to)
    AND NOT t.property IN $stop
  WITH DISTINCT b, t.property AS property
  MATCH (b)-[c:CLAIM {property: property}]->(o:Term)
  WHERE c.rank <> 'deprecated' AND coalesce(c.end_precision, 0) >= 0
  WITH property, c, o.kind AS kind, CASE WHEN o.redirected_at <= $to THEN o.redirect_to ELSE o.id END AS object,
       c.valid_from <= $from < c.valid_to
         AND coalesce(c.start_first, $from) <= $from AND coalesce(c.end_until, $from + 1) > $from AS in_old,
       c.valid_from <= $to < c.valid_to
         AND coalesce(c.start_first, $to) <= $to AND coalesce(c.end_until, $to + 1) > $to AS in_new
  WITH property,
       collect(CASE WHEN in_old THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS old,
       collect(CASE WHEN in_new THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS new
  WITH property,
       CASE WHEN any(x IN old WHERE x.preferred) THEN [x IN old WHERE x.preferred] ELSE old END AS old,
       CASE WHEN any(x IN new WHERE x.preferred) THEN [x IN new WHERE x.preferred] ELSE new END AS new
  UNWIND [x IN new WHERE x.kind = 'item' AND none(y IN old WHERE y.id = x.id) | x.id] AS object
  RETURN DISTINCT property AS second_property, object
}
UNWIND first_hops AS hop
WITH hop, bridge, second_property, object
WHERE object <> hop.subject AND object <> bridge AND bridge <> hop.subject
RETURN hop.subject AS subject, hop.property AS first_property, bridge, second_property, object
ORDER BY subject, first_property, bridge, second_property, object
