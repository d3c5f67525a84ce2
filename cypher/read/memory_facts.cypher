// Finds: Facts between items, current and ended, in pages of subjects. `kgedit memory build --graph` reads them.
// Parameters:
// $date (date): snapshot; facts first seen later are excluded
// $after (text, default ""): last QID of the previous page
// $subjects (integer, default 2000): number of subjects in a page
// $properties (ids, default []): properties of the facts; empty means all
// Returns:
// subject: QID
// subject_label: its label
// subject_description: its description
// subject_aliases: its aliases
// property: PID
// property_label: its label
// object: QID
// object_label: its label
// start_time: P580 as in Wikidata
// end_time: P582 as in Wikidata
// since: first snapshot with the fact, as a day number
// until: first snapshot without it, as a day number; null while it is current
MATCH (t:Term) WHERE t.id > $after AND t:Item
  AND EXISTS { (t)-[e:FACT]->(:Item) WHERE e.since <= $date AND (size($properties) = 0 OR e.property IN $properties) }
WITH t ORDER BY t.id LIMIT $subjects
MATCH (t)-[g:FACT]->(o:Item) WHERE g.since <= $date AND (size($properties) = 0 OR g.property IN $properties)
RETURN t.id AS subject, t.label AS subject_label, t.description AS subject_description, t.aliases AS subject_aliases,
       g.property AS property, g.property_label AS property_label, o.id AS object, o.label AS object_label,
       g.start_time AS start_time, g.end_time AS end_time, g.since AS since,
       CASE WHEN g.until <= $date THEN g.until END AS until
ORDER BY subject, since, property, object
