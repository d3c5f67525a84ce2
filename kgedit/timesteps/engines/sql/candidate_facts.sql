-- Finds: Facts that each edit shares with others, and unchanged facts of the edits' properties about the subjects that have
-- them. The edited property is not compared. Neither subject nor object of a found fact has changed facts.
-- Reads: edits (part, case_id, subject, property) and the tables of static_facts.sql and shared_facts.sql
-- Returns: sought (part, case_id, subject, property, pair, weight), near (pair, property, subject, object); both are joined by
-- pair and property
CREATE OR REPLACE TEMP TABLE sought AS
SELECT e.part, e.case_id, e.subject, e.property, p.pair, p.weight
FROM edits e
JOIN feature f ON f.subject = e.subject AND f.property <> e.property
JOIN pair p ON p.property = f.property AND p.object = f.object;

CREATE OR REPLACE TEMP TABLE near AS
SELECT w.pair, w.property, h.subject, s.object
FROM (SELECT DISTINCT pair, property FROM sought) w
JOIN holder h USING (pair)
JOIN static_fact s ON s.subject = h.subject AND s.property = w.property
WHERE s.untouched;
