"""Language models: loading, prompting, decoding, judging, and access to their layers for editors."""

import logging

# peft and sentence-transformers import it if installed; on a CPU it warns about a kernel that kgedit does not use.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
