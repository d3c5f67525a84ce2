"""The snapshot store: one folder of Parquet per date, from which the graph can be rebuilt."""
