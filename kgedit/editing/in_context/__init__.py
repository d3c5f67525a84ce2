"""Text ahead of prompts, without changing the model: `rag`, `ike`, `prompt`."""
