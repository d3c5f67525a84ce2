-- Finds: Features of documents and subjects, which are compared by the cosine of TF-IDF vectors (WikiFactDiff, section
-- 4.4): an entity's id, each (property, item) pair and each item in its facts in the older snapshot. A subject that is
-- missing from the older snapshot is described by the newer one. kgedit/timesteps/engines/store.py computes the sparse
-- product; same result as cypher/read/nearest_entities.cypher.
-- Reads: asked_subject (id), asked_document (id), old_facts, new_facts, old_entities
-- Returns: numbered (number, id), documents by the number of their id; sought (place, id), subjects likewise;
-- entity_feature (number, name, holders); document_feature and sought_feature (line, feature, times)
CREATE OR REPLACE TEMP TABLE numbered AS
SELECT row_number() OVER (ORDER BY id[2:]::BIGINT) - 1 AS number, id FROM (SELECT DISTINCT id FROM asked_document);

CREATE OR REPLACE TEMP TABLE sought AS
SELECT row_number() OVER (ORDER BY id[2:]::BIGINT) - 1 AS place, id FROM (SELECT DISTINCT id FROM asked_subject);

CREATE OR REPLACE TEMP TABLE document_name AS
WITH fact AS MATERIALIZED (
    SELECT subject AS id, property, object FROM old_facts WHERE kind = 'item' AND subject IN (SELECT id FROM numbered)
)
SELECT id, name, count(*) AS times FROM (
    SELECT id, property || ' ' || object AS name FROM fact
    UNION ALL SELECT id, object FROM fact
    UNION ALL SELECT id, id FROM numbered -- an object that is no document is a feature too: two entities may share it
) GROUP BY id, name;

CREATE OR REPLACE TEMP TABLE sought_name AS
WITH fact AS MATERIALIZED (
    SELECT subject AS id, property, object FROM old_facts WHERE kind = 'item' AND subject IN (SELECT id FROM sought)
    UNION ALL
    SELECT subject, property, object FROM new_facts WHERE kind = 'item' AND subject IN (SELECT id FROM sought)
        AND subject NOT IN (SELECT id FROM old_entities)
)
SELECT id, name, count(*) AS times FROM (
    SELECT id, property || ' ' || object AS name FROM fact
    UNION ALL SELECT id, object FROM fact
    UNION ALL SELECT id, id FROM sought
) GROUP BY id, name;

CREATE OR REPLACE TEMP TABLE entity_feature AS
SELECT row_number() OVER (ORDER BY name) - 1 AS number, name, coalesce(holders, 0) AS holders
FROM (SELECT name, count(*) AS holders FROM document_name GROUP BY name)
FULL JOIN (SELECT DISTINCT name FROM sought_name) USING (name);

CREATE OR REPLACE TEMP TABLE document_feature AS
SELECT d.number AS line, f.number AS feature, times FROM document_name
JOIN numbered d USING (id) JOIN entity_feature f USING (name);

CREATE OR REPLACE TEMP TABLE sought_feature AS
SELECT s.place AS line, f.number AS feature, times FROM sought_name
JOIN sought s USING (id) JOIN entity_feature f USING (name);

DROP TABLE document_name;
DROP TABLE sought_name
