-- Finds: Unchanged facts of some properties: the subject is an item and has, in both snapshots, one object of the
-- property, the same item; and the facts of the edited subjects in either snapshot. Same rows as
-- cypher/read/static_facts.cypher, without labels.
-- Reads: edits (case_id, subject, property), of the bucket's subjects; relation (property), those of all edits;
-- edited_subject (edited_subjects.sql), old_facts, new_facts, changed_entities
-- Adds to: static_fact (subject, property, object, untouched), own_fact (subject, property, object)
INSERT INTO static_fact
WITH touched AS MATERIALIZED (
    SELECT id FROM changed_entities -- all others have the same facts in both snapshots, which are read once
), one AS MATERIALIZED (
    SELECT subject, property, any_value(object) AS object FROM old_facts SEMI JOIN relation USING (property)
    WHERE subject[1] = 'Q' GROUP BY subject, property HAVING count(*) = 1 AND any_value(kind) = 'item'
), other AS (
    SELECT subject, property, any_value(object) AS object FROM new_facts SEMI JOIN relation USING (property)
    WHERE subject IN (FROM touched) GROUP BY subject, property HAVING count(*) = 1
), unchanged AS (
    SELECT * FROM one WHERE subject NOT IN (FROM touched)
    UNION ALL
    SELECT * FROM one SEMI JOIN other USING (subject, property, object) WHERE subject IN (FROM touched)
)
SELECT *, subject NOT IN (FROM edited_subject) AND object NOT IN (FROM edited_subject) FROM unchanged;

INSERT INTO own_fact
SELECT subject, property, object FROM old_facts SEMI JOIN edits USING (subject, property)
UNION
SELECT subject, property, object FROM new_facts SEMI JOIN edits USING (subject, property)
