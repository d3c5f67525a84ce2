"""One folder for the Hugging Face hub, made of finished timesteps: tables, card, Croissant, harness tasks, other forms.

The folder holds every timestep whole under timesteps/, so that kgedit itself edits with what was published.
"""
