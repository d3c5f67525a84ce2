CREATE CONSTRAINT claim_version_id IF NOT EXISTS FOR ()-[c:CLAIM]-() REQUIRE c.version_id IS UNIQUE
