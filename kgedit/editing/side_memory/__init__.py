"""External memories for one layer, without weight changes: `grace`, `memoir`, `wise`."""
