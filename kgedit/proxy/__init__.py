"""The memory as a service: an OpenAI-compatible proxy that puts facts ahead of the questions of the user's own model.

`placing` changes a request, `memories` finds the facts and loads new files, `proxy` passes requests on, and `server`
runs it.
"""
