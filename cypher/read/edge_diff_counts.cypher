// Finds: For each property, how many statement versions opened and closed between two snapshots, and how many of
// them belong to a statement that was edited rather than added or removed.
// Parameters:
// $from (date): older snapshot
// $to (date): newer snapshot
// Returns:
// property: PID
// opened: versions first seen after $from and by $to
// closed: versions last seen before $to
// edited: opened versions of statements that had an earlier one
CALL () {
  MATCH ()-[c:CLAIM]->() WHERE c.valid_from > $from AND c.valid_from <= $to
  RETURN c.property AS property, 1 AS opened, 0 AS closed,
         CASE WHEN EXISTS { MATCH ()-[e:CLAIM {statement_id: c.statement_id}]->() WHERE e.valid_to = c.valid_from }
              THEN 1 ELSE 0 END AS edited
  UNION ALL
  MATCH ()-[c:CLAIM]->() WHERE c.valid_to > $from AND c.valid_to <= $to
  RETURN c.property AS property, 0 AS opened, 1 AS closed, 0 AS edited
}
RETURN property, sum(opened) AS opened, sum(closed) AS closed, sum(edited) AS edited
ORDER BY property
