CREATE INDEX claim_valid_to IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.valid_to)
