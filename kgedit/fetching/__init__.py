"""Download dumps, items and slices into files that load-dump reads."""
