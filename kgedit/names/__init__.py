"""Index of labels and aliases that finds names in texts as whole words, with at most one wrong letter."""
