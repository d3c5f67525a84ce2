-- Finds: For some properties of the newer snapshot, the number of subjects, and of those with exactly one current object.
-- Reads: asked (property), new_facts
-- Returns: property, subjects, single
WITH one AS (
    SELECT property, subject, count(*) AS objects FROM new_facts SEMI JOIN asked USING (property)
    GROUP BY property, subject
)
SELECT property, count(*) AS subjects, count(*) FILTER (objects = 1) AS single FROM one GROUP BY property
