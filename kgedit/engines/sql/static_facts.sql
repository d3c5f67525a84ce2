-- Finds: Unchanged facts of some properties: the subject is an item and has one object of the property in both
-- snapshots, the same item. Keeps the tables static_fact, and edited_subject: subjects with a fact that only one of the
-- snapshots has; and own_fact (subject, property, object): what the edited subjects have in either snapshot. The same
-- rows as cypher/read/static_facts.cypher, without labels.
-- Reads: edits (case_id, subject, property), old_facts, new_facts, old_entities, new_entities
-- Returns: static_fact (subject, property, object, untouched)
CREATE OR REPLACE TEMP TABLE touched AS
SELECT coalesce(o.id, n.id) AS id FROM old_entities o FULL JOIN new_entities n ON o.id = n.id
WHERE o.digest IS DISTINCT FROM n.digest; -- all others have the same facts in both snapshots, which are read once

CREATE OR REPLACE TEMP TABLE edited_subject AS
WITH old_touched AS (FROM old_facts WHERE subject IN (FROM touched)),
     new_touched AS (FROM new_facts WHERE subject IN (FROM touched))
SELECT subject AS id FROM old_touched ANTI JOIN new_touched USING (subject, property, object)
UNION
SELECT subject FROM new_touched ANTI JOIN old_touched USING (subject, property, object);

CREATE OR REPLACE TEMP TABLE static_fact AS
WITH one AS (
    SELECT subject, property, any_value(object) AS object FROM old_facts SEMI JOIN edits USING (property)
    WHERE subject[1] = 'Q' GROUP BY subject, property HAVING count(*) = 1 AND any_value(kind) = 'item'
), other AS (
    SELECT subject, property, any_value(object) AS object FROM new_facts SEMI JOIN edits USING (property)
    WHERE subject IN (FROM touched) GROUP BY subject, property HAVING count(*) = 1
), unchanged AS (
    SELECT * FROM one WHERE subject NOT IN (FROM touched)
    UNION ALL
    SELECT * FROM one SEMI JOIN other USING (subject, property, object) WHERE subject IN (FROM touched)
)
SELECT *, subject NOT IN (FROM edited_subject) AND object NOT IN (FROM edited_subject) AS untouched FROM unchanged;

CREATE OR REPLACE TEMP TABLE own_fact AS
SELECT subject, property, object FROM old_facts SEMI JOIN edits USING (subject, property)
UNION
SELECT subject, property, object FROM new_facts SEMI JOIN edits USING (subject, property);
