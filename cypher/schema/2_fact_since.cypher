CREATE INDEX fact_since IF NOT EXISTS FOR ()-[f:FACT]-() ON (f.since)
