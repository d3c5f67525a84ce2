CREATE INDEX fact_until IF NOT EXISTS FOR ()-[f:FACT]-() ON (f.until)
