"""Language models: loading, prompting, decoding, judging, and access to their layers for editors."""

import logging

# peft and sentence-transformers import it where it is installed; on a CPU it warns of a kernel that nothing here needs.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
