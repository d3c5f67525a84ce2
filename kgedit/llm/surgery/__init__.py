"""Finding and replacing parts of a model: its structure, its matrices, and what stands at one position."""
