"""Finding and replacing parts of a model: its structure, its matrices, and activations at one position."""
