"""The snapshot store: one folder of Parquet per date, from which the graph can be rebuilt."""

TASK_STAGES = ("parse", "gather", "finish")
"""Stages of a load in parts (kgedit.store.tasks), in order. All parts of one must have ended before the next begins."""
