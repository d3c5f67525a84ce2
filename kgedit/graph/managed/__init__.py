"""The private Neo4j server that kgedit installs, starts and stops for a home; entry point: `server.ManagedServer`."""
