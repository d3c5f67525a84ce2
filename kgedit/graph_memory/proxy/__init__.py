"""OpenAI-compatible proxy that prepends facts from a graph memory to the questions sent to a model.

`placing` edits requests, `memories` finds facts and reloads memory files, `proxy` forwards requests, and `server` runs
the application.
"""
