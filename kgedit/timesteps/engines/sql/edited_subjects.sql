-- Finds: Subjects with a fact that is current in only one of the snapshots.
-- Reads: old_facts, new_facts, changed_entities
-- Adds to: edited_subject (id)
INSERT INTO edited_subject
WITH touched AS MATERIALIZED (
    SELECT id FROM changed_entities -- all others have the same facts in both snapshots
), old_touched AS MATERIALIZED (
    SELECT subject, property, object FROM old_facts WHERE subject IN (FROM touched)
), new_touched AS MATERIALIZED (
    SELECT subject, property, object FROM new_facts WHERE subject IN (FROM touched)
)
SELECT subject FROM old_touched ANTI JOIN new_touched USING (subject, property, object)
UNION
SELECT subject FROM new_touched ANTI JOIN old_touched USING (subject, property, object)
