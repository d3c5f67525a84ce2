"""Low-rank adapters by peft: `lora`, `lora_merge`."""
