"""A folder for the Hugging Face hub, made from finished timesteps: tables, card, Croissant, harness tasks, other forms.

The folder contains the complete timesteps under timesteps/, so that kgedit can edit with the published data.
"""
