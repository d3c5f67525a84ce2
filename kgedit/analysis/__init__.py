"""Finished runs compared: tables, Markdown, CSV."""
