"""Runs: the spec, the loop that edits and evaluates, and everything in a run folder."""
