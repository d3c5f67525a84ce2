CREATE INDEX fact_property_since IF NOT EXISTS FOR ()-[f:FACT]-() ON (f.property, f.since)
