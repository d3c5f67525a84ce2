"""Shared paths and fixtures. No network, no GPU; server tests carry the marker `graph`."""
