"""Wikidata's JSON dump format."""
