"""The snapshot store: one folder of Parquet per date, from which the graph can be rebuilt."""

LOAD_STAGES = ("parse", "gather", "finish")
"""Stages of a load in parts (kgedit.store.tasks), in order. All parts of one must have ended before the next begins."""

TASK_STAGES = (*LOAD_STAGES, "delta")
"""Stages that are done in parts: those of a load, and the changes since the snapshot before, for the graph."""
