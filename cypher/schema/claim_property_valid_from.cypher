CREATE INDEX claim_property_valid_from IF NOT EXISTS FOR ()-[c:CLAIM]-() ON (c.property, c.valid_from)
