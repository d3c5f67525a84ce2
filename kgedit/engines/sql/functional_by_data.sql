-- Finds: Numbers of subjects of some properties of the newer snapshot, all and those with exactly one current object; sums
-- over buckets give the rows of cypher/read/functional_by_data.cypher, without labels.
-- Reads: asked (property), new_facts
-- Returns: property, subjects, single
WITH one AS (
    SELECT property, subject, count(*) AS objects FROM new_facts SEMI JOIN asked USING (property)
    GROUP BY property, subject
)
SELECT property, count(*) AS subjects, count(*) FILTER (objects = 1) AS single FROM one GROUP BY property
