"""Text ahead of prompts, model unchanged: `rag`, `ike`, `prompt`."""
