"""Language models: loading, asking, judging, and the surgery that editors do on them."""

import logging

# peft and sentence-transformers import it where it is installed; on a CPU it warns of a kernel that nothing here needs.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
