"""Sweeps: one YAML file that describes many runs, executed one after another; `planning.py` reads it."""
