"""The snapshot store: one folder of Parquet per date, the source of truth from which the graph can be rebuilt."""
