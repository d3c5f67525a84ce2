"""Question templates, personas, names and dates in words, read from the top-level folder ``prompts/``.

`name_index` is the way back: it finds the names of entities in texts.
"""
