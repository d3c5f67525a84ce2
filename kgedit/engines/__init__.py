"""Answers to the four questions of an export: Cypher over the graph, or SQL over the store."""
