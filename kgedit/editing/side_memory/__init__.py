"""Memories beside one layer, weights unchanged: `grace`, `wise`."""
