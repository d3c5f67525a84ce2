"""Methods that prepend text to prompts without changing the model: `rag`, `ike`, `prompt`."""
