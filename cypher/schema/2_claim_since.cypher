CREATE INDEX claim_since IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.since)
