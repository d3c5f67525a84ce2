CREATE INDEX claim_valid_from IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.valid_from)
