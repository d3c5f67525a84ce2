"""Answers to the four questions of an export: Cypher over the graph, or SQL over the store."""

ENGINES = ("auto", "graph", "store")
"""Names of the engines, the default first: auto chooses one by the size of the window."""
