-- Finds: Share of each property's subjects that have exactly one current object in the newer snapshot. Same rows as
-- cypher/read/functional_by_data.cypher, without labels.
-- Parameters: $min_subjects; properties with fewer subjects are excluded
-- Reads: counts (property, subjects, single), the results of functional_counts.sql for each bucket
-- Returns: kgedit.timesteps.engines.FUNCTIONAL_BY_DATA
WITH summed AS (
    SELECT property, sum(subjects)::BIGINT AS subjects, sum(single)::BIGINT AS single FROM counts GROUP BY property
)
SELECT property, subjects, single / subjects AS functional FROM summed
WHERE subjects >= $min_subjects ORDER BY property
