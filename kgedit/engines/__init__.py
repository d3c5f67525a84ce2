"""Two engines for the questions that an export asks of a window: Cypher over the graph, or SQL over the store."""
