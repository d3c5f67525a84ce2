"""The records that cross borders between parts: small frozen dataclasses, never dictionaries."""
