"""Low-rank adapters by peft: `lora`, `lora_merge`."""

import logging

# peft imports it where it is installed, and on a CPU it warns of a kernel that nothing here needs.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
