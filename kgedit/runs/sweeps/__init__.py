"""Sweeps: one YAML file that stands for many runs, carried out one after another; `planning.py` reads it."""
