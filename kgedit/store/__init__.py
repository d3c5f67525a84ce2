"""The snapshot store: one folder of Parquet per date, from which the graph can be rebuilt."""

LOAD_STAGES = ("parse", "gather", "finish")
"""Stages of a load in parts (kgedit.store.tasks), in order. All parts of one must have ended before the next begins."""

CHANGES_STAGES = ("select-changes", "take-changes")
"""Stages of load-changes in parts (kgedit.timesteps.changes_only), in order; the first one has one part."""

TASK_STAGES = (*LOAD_STAGES, "delta", *CHANGES_STAGES)
"""Stages that are done in parts: those of a load, the changes since the snapshot before, for the graph, and those of
load-changes."""
