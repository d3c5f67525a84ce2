"""Finds and replaces parts of a model: its structure, its matrices, and activations at single positions."""
