"""The private Neo4j server that kgedit fetches, starts and stops for a home; `server.ManagedServer` is the way in."""
