"""The time-versioned graph in Neo4j, spoken to over Bolt.

`connection.Graph` is the way in; behind it is a server at any address (KGEDIT_GRAPH_URI) or the private one in
`managed`.
"""
