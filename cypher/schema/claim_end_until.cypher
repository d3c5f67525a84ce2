CREATE INDEX claim_end_until IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.end_until)
