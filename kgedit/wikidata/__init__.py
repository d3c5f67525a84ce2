"""Wikidata's rules: ids with a meaning, times and values."""
