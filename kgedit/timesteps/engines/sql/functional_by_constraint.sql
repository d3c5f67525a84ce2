-- Finds: Properties with a single-value or single-best-value constraint in Wikidata: in the newer snapshot, or in the
-- older one for properties that the newer one lacks. Same rows as cypher/read/functional_by_constraint.cypher for
-- either snapshot, without labels.
-- Reads: old_claims, new_claims, new_entities
-- Returns: kgedit.timesteps.engines.FUNCTIONAL_BY_CONSTRAINT
WITH declared AS (
    SELECT subject, object, separators FROM new_claims
    WHERE property = 'P2302' AND rank <> 'deprecated' AND snak = 'value' AND object IN ('Q19474404', 'Q52060874')
    UNION ALL
    SELECT subject, object, separators FROM old_claims
    WHERE property = 'P2302' AND rank <> 'deprecated' AND snak = 'value' AND object IN ('Q19474404', 'Q52060874')
      AND subject NOT IN (SELECT id FROM new_entities)
)
SELECT DISTINCT subject AS property,
       CASE object WHEN 'Q19474404' THEN 'single value' ELSE 'single best value' END AS "constraint",
       coalesce(separators, []) AS separators
FROM declared ORDER BY property, "constraint", separators
