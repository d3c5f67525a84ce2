-- Finds: For each edit of a batch, unchanged facts of its property about similar subjects. Similarity is the rarity of
-- the facts that both have in the older snapshot; the edited property is not compared. Neither subject nor object of a
-- probe has changed facts, and the edited subject has the object in neither snapshot. Same rows as
-- cypher/read/similar_static_facts.cypher.
-- Parameters: $k, the maximum number of probes for each edit
-- Reads: batch (case_id, subject, property) and the tables of static_facts.sql and shared_facts.sql
-- Returns: kgedit.timesteps.engines.protocol.SIMILAR
WITH static_here AS MATERIALIZED (
    FROM static_fact WHERE untouched AND property IN (SELECT property FROM batch)
), own AS (
    SELECT b.case_id, f.object FROM batch b JOIN own_fact f USING (subject, property)
), found AS (
    SELECT b.case_id, h.subject, b.property, any_value(s.object) AS object, sum(p.weight) AS weight
    FROM batch b
    JOIN feature f ON f.subject = b.subject AND f.property <> b.property
    JOIN pair p ON p.property = f.property AND p.object = f.object
    JOIN holder h ON h.pair = p.pair AND h.subject <> b.subject
    JOIN static_here s ON s.subject = h.subject AND s.property = b.property
    GROUP BY b.case_id, h.subject, b.property
)
SELECT case_id, subject, property, object, weight / 1e6 AS score FROM found ANTI JOIN own USING (case_id, object)
QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY weight DESC, subject) <= $k
ORDER BY property, case_id, weight DESC, subject
