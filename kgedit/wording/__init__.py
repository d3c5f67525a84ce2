"""Question templates, personas, names and dates in words, read from the top-level folder ``prompts/``."""
