"""Wikidata's rules: meaningful ids, times and values."""
