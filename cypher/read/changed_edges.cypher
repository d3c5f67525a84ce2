// Finds: Subjects and properties whose current objects differ between two snapshots. Current are the objects of best
// rank among the statements that are in the snapshot, not deprecated, have begun and have not ended at its date.
// Objects that were merged are compared under their newer id. The hints keep the cost to what changed, whatever the
// planner thinks of the window.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// subject: QID or PID
// property: PID
// old_objects: current objects at $from; ids, or V... for literals; sorted
// new_objects: current objects at $to; sorted
// statement_ids: statements that carry new_objects, in the same order
// item_valued: whether every object on both sides is an item
// subject_in_old: whether the older snapshot has the subject at all
// subject_in_new: whether the newer snapshot has it
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
MATCH (s)-[c:CLAIM {property: property}]->(o:Term)
WHERE c.rank <> 'deprecated' AND coalesce(c.end_precision, 0) >= 0
WITH s, property, c, o.kind AS kind, CASE WHEN o.redirected_at <= $to THEN o.redirect_to ELSE o.id END AS object,
     c.valid_from <= $from < c.valid_to
       AND coalesce(c.start_first, $from) <= $from AND coalesce(c.end_until, $from + 1) > $from AS in_old,
     c.valid_from <= $to < c.valid_to
       AND coalesce(c.start_first, $to) <= $to AND coalesce(c.end_until, $to + 1) > $to AS in_new
WHERE in_old OR in_new
WITH s, property, c, kind, object, in_old, in_new ORDER BY object, c.statement_id
WITH s, property,
     collect(CASE WHEN in_old THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS old,
     collect(CASE WHEN in_new THEN {id: object, kind: kind, preferred: c.rank = 'preferred',
                                    statement: c.statement_id} END) AS new
WITH s, property,
     CASE WHEN any(x IN old WHERE x.preferred) THEN [x IN old WHERE x.preferred] ELSE old END AS old,
     CASE WHEN any(x IN new WHERE x.preferred) THEN [x IN new WHERE x.preferred] ELSE new END AS new
WITH s, property, new, all(x IN old + new WHERE x.kind = 'item') AS item_valued,
     reduce(ids = [], x IN old | CASE WHEN x.id IN ids THEN ids ELSE ids + x.id END) AS old_objects,
     reduce(ids = [], x IN new | CASE WHEN x.id IN ids THEN ids ELSE ids + x.id END) AS new_objects
WHERE old_objects <> new_objects
RETURN s.id AS subject, property, old_objects, new_objects,
       [object IN new_objects | head([x IN new WHERE x.id = object]).statement] AS statement_ids, item_valued,
       any(i IN range(0, size(coalesce(s.presence, [])) - 1, 2)
           WHERE s.presence[i] <= $from < s.presence[i + 1]) AS subject_in_old,
       any(i IN range(0, size(coalesce(s.presence, [])) - 1, 2)
           WHERE s.presence[i] <= $to < s.presence[i + 1]) AS subject_in_new
ORDER BY subject, property
