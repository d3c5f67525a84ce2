-- Finds: For each edit of a part, unchanged facts of its property about similar subjects. Similarity is the rarity of the
-- facts that both have in the older snapshot. The edited subject has the object in neither snapshot. Same rows as
-- cypher/read/similar_static_facts.cypher.
-- Parameters: $k, the maximum number of probes for each edit
-- Reads: candidate (case_id, subject, property, object, weight), a row for each shared fact, from candidate_facts.sql;
-- own (case_id, object), the edited subjects' own values
-- Returns: kgedit.timesteps.engines.SIMILAR
WITH found AS (
    SELECT case_id, subject, property, any_value(object) AS object, sum(weight) AS weight
    FROM candidate GROUP BY case_id, subject, property
)
SELECT case_id, subject, property, object, weight / 1e6 AS score FROM found ANTI JOIN own USING (case_id, object)
QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY weight DESC, subject) <= $k
ORDER BY property, case_id, weight DESC, subject
