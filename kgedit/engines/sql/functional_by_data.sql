-- Finds: The share of subjects with exactly one current object, for some properties of the newer snapshot. The same rows
-- as cypher/read/functional_by_data.cypher, without labels.
-- Parameters: $min_subjects, the fewest subjects of a property
-- Reads: asked (property), new_facts
-- Returns: kgedit.engines.protocol.FUNCTIONAL_BY_DATA
WITH one AS (
    SELECT property, subject, count(*) AS objects FROM new_facts SEMI JOIN asked USING (property)
    GROUP BY property, subject
)
SELECT property, count(*) AS subjects, count(*) FILTER (objects = 1) / count(*) AS functional
FROM one GROUP BY property HAVING count(*) >= $min_subjects ORDER BY property
