-- Finds: Items that share a fact with an edited subject in the older snapshot, for facts of at most max_df items.
-- Weights are whole millionths, because their sum then does not depend on the order.
-- Reads: edits (case_id, subject, property), edited_subject (edited_subjects.sql), old_facts; the variables items
-- (of the older snapshot) and max_df
-- Returns: feature (subject, property, object), pair (pair, property, object, weight), holder (pair, subject)
CREATE OR REPLACE TEMP TABLE feature AS
SELECT DISTINCT e.subject, f.property, f.object
FROM old_facts f JOIN (SELECT DISTINCT subject FROM edits) e USING (subject);

CREATE OR REPLACE TEMP TABLE pair AS
SELECT row_number() OVER (ORDER BY property, object) AS pair, property, object,
       round(1e6 * ln(getvariable('items')::DOUBLE / holders))::BIGINT AS weight
FROM (
    SELECT property, object, count(*) AS holders
    FROM old_facts SEMI JOIN feature USING (property, object) WHERE subject[1] = 'Q'
    GROUP BY property, object HAVING count(*) <= getvariable('max_df')
);

CREATE OR REPLACE TEMP TABLE holder AS
SELECT pair, f.subject FROM old_facts f JOIN pair USING (property, object)
WHERE f.subject[1] = 'Q' AND f.subject NOT IN (FROM edited_subject);
