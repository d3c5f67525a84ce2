"""OpenAI-compatible proxy that prepends facts from a graph memory to the questions sent to a model.

`bodies` edits requests, `memories` finds facts and reloads memory files, and `proxy` forwards requests and makes the
server; `http` limits requests, for other servers too.
"""
