"""Runs: the spec, the loop that edits and evaluates, and all files of a run folder."""
