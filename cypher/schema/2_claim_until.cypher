CREATE INDEX claim_until IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.until)
