"""Models behind an OpenAI-compatible server: concurrent requests, each paid for once.

Callers need only `ChatClient` in client.py; server.py is the only module of kgedit that imports openai.
"""
