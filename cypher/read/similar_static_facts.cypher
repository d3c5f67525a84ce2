// Finds: For each of many edits, unchanged facts of the same property whose subjects are most like the edited one
// (see similar_subjects; the edit's own property does not count) and whose object is another one: locality probes.
// Parameters:
// $edits (maps): maps of case_id, subject, property and avoid (objects that no probe may have)
// $from (date): older snapshot
// $to (date): newer snapshot
// $edited (ids): subjects that changed in the window; no probe has one as subject or object
// $max_df (integer, default 500): objects with more incoming claims are hubs
// $k (integer, default 1): probes for each edit
// Returns:
// case_id: of the edit
// subject: QID of the similar subject
// object: its one current object of the property, in both snapshots
// score: similarity, as in similar_subjects
MATCH (t:Term {kind: 'item'})
WITH count(t) AS items
UNWIND $edits AS edit
CALL (items, edit) {
  MATCH (s:Term {id: edit.subject})-[f:CLAIM]->(v:Term)
  WHERE f.valid_from <= $from < f.valid_to AND f.rank <> 'deprecated' AND f.property <> edit.property
    AND COUNT { (v)<-[:CLAIM]-() } <= $max_df
  WITH DISTINCT s, f.property AS property, v
  MATCH (v)<-[g:CLAIM {property: property}]-(other:Term)
  WHERE g.valid_from <= $from < g.valid_to AND g.rank <> 'deprecated' AND other <> s AND other.kind = 'item'
  WITH property, v, collect(DISTINCT other) AS others
  WITH log(1.0 * items / (size(others) + 1)) AS weight, others
  UNWIND others AS other
  WITH other, round(sum(weight), 6) AS score
  WHERE NOT other.id IN $edited
  CALL (edit, other) {
    MATCH (other)-[c:CLAIM {property: edit.property}]->(o:Term)
    WHERE c.valid_from <= $to AND c.valid_to > $from AND c.rank <> 'deprecated' AND coalesce(c.end_precision, 0) >= 0
    WITH c, o.kind AS kind, CASE WHEN o.redirected_at <= $to THEN o.redirect_to ELSE o.id END AS object,
         c.valid_from <= $from < c.valid_to
           AND coalesce(c.start_first, $from) <= $from AND coalesce(c.end_until, $from + 1) > $from AS in_old,
         c.valid_from <= $to < c.valid_to
           AND coalesce(c.start_first, $to) <= $to AND coalesce(c.end_until, $to + 1) > $to AS in_new
    WITH collect(DISTINCT CASE WHEN in_old THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS old,
         collect(DISTINCT CASE WHEN in_new THEN {id: object, kind: kind, preferred: c.rank = 'preferred'} END) AS new
    WITH CASE WHEN any(x IN old WHERE x.preferred) THEN [x IN old WHERE x.preferred] ELSE old END AS old,
         CASE WHEN any(x IN new WHERE x.preferred) THEN [x IN new WHERE x.preferred] ELSE new END AS new
    WHERE size(old) = 1 AND size(new) = 1 AND old[0].id = new[0].id AND new[0].kind = 'item'
    RETURN new[0].id AS object
  }
  WITH other.id AS subject, object, score
  WHERE NOT object IN edit.avoid AND NOT object IN $edited
  RETURN subject, object, score ORDER BY score DESC, subject LIMIT $k
}
RETURN edit.case_id AS case_id, subject, object, score
ORDER BY case_id, score DESC, subject
