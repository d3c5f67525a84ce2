"""Models behind an OpenAI-compatible server: many requests asked at once, each paid for once.

`ChatClient` in client.py is all that callers need; server.py is the only module of kgedit that imports openai.
"""
