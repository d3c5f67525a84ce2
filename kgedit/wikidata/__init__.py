"""Wikidata's own rules: ids with a meaning, times, what holds at a date."""
