CREATE INDEX claim_start_first IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.start_first)
