"""Wordings as data: question templates and personas, read from prompts/ and checked."""
