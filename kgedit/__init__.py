"""kgedit: turn Wikidata's own history into the test and the cure for stale language models.

Importing this package does nothing but name its version; every part is imported where it is used.
"""

__version__ = "0.1.0"
