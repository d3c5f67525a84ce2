-- Finds: Features of documents and subjects, which are compared by the cosine of TF-IDF vectors (WikiFactDiff, section
-- 4.4): an entity's id, each (property, item) pair and each item in its facts in the older snapshot. A subject that is
-- missing from the older snapshot is described by the newer one. An object that is no document is a feature too: two
-- entities may share it. kgedit/timesteps/engines/store.py computes the sparse product; same result as
-- cypher/read/nearest_entities.cypher.
-- Reads: asked_subject (id), asked_document (id), old_facts, new_facts, old_entities
-- Returns: numbered (number, id), documents by the number of their id; sought (number, id), subjects likewise;
-- entity_feature (number, key, holders); document_feature and sought_feature (line, feature, times), by line
-- A feature's key is a number, because texts of all pairs take several times the memory: 2^40 times the property's
-- number plus the item's. Rows are numbered by rowid: a window function would hold all of them in memory.
CREATE OR REPLACE TEMP MACRO key_of(property, item) AS (property[2:]::BIGINT << 40) + item[2:]::BIGINT;

CREATE OR REPLACE TEMP TABLE ordered_document AS SELECT DISTINCT id FROM asked_document ORDER BY id[2:]::BIGINT;
CREATE OR REPLACE TEMP TABLE numbered AS SELECT rowid AS number, id FROM ordered_document;

CREATE OR REPLACE TEMP TABLE ordered_subject AS SELECT DISTINCT id FROM asked_subject ORDER BY id[2:]::BIGINT;
CREATE OR REPLACE TEMP TABLE sought AS SELECT rowid AS number, id FROM ordered_subject;

CREATE OR REPLACE TEMP TABLE document_key AS
SELECT line, key, count(*) AS times FROM (
    SELECT number AS line, unnest([key_of(property, object), key_of('P0', object)]) AS key
    FROM old_facts JOIN numbered ON id = subject WHERE kind = 'item'
    UNION ALL SELECT number, key_of('P0', id) FROM numbered
) GROUP BY line, key;

CREATE OR REPLACE TEMP TABLE sought_key AS
SELECT line, key, count(*) AS times FROM (
    SELECT number AS line, unnest([key_of(property, object), key_of('P0', object)]) AS key
    FROM (
        SELECT subject, property, object FROM old_facts WHERE kind = 'item'
        UNION ALL
        SELECT subject, property, object FROM new_facts WHERE kind = 'item'
            AND subject NOT IN (SELECT id FROM old_entities)
    ) JOIN sought ON id = subject
    UNION ALL SELECT number, key_of('P0', id) FROM sought
) GROUP BY line, key;

CREATE OR REPLACE TEMP TABLE held_feature AS
SELECT key, sum(holders)::BIGINT AS holders FROM (
    SELECT key, count(*) AS holders FROM document_key GROUP BY key
    UNION ALL SELECT DISTINCT key, 0 FROM sought_key
) GROUP BY key ORDER BY key;
CREATE OR REPLACE TEMP TABLE entity_feature AS SELECT rowid AS number, key, holders FROM held_feature;

CREATE OR REPLACE TEMP TABLE document_feature AS
SELECT line, number AS feature, times FROM document_key JOIN entity_feature USING (key) ORDER BY line;

CREATE OR REPLACE TEMP TABLE sought_feature AS
SELECT line, number AS feature, times FROM sought_key JOIN entity_feature USING (key) ORDER BY line;

DROP TABLE ordered_document;
DROP TABLE ordered_subject;
DROP TABLE document_key;
DROP TABLE sought_key;
DROP TABLE held_feature;
DROP MACRO key_of
