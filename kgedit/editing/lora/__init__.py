"""Low-rank adapters of peft: `lora`, `lora_merge`."""
