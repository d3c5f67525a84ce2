"""Names in texts: an index of labels and aliases that finds them as whole words, and forgives one wrong letter."""
