CREATE INDEX claim_statement_id IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.statement_id)
