"""The time-versioned graph in Neo4j, accessed over Bolt.

`connection.Graph` is the entry point. It connects to a server at any address (KGEDIT_GRAPH_URI) or to the private one
in `managed`.
"""
